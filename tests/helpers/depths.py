"""Trajectories on the sphere whose structure is known: planted phases, arcs and random walks.

Run as a script it prints how often each is recognised.
"""

from __future__ import annotations

import sys

import numpy as np

import raptor

IMAGES, WIDTH = 64, 64


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def planted(rng, lengths, sigma):
    """Unit centres fresh for every image; x_l = normalise(centre + sigma u), u Gaussian of unit expected norm."""
    phase = np.repeat(np.arange(len(lengths)), lengths)
    centres = unit(rng.normal(size=(IMAGES, len(lengths), WIDTH)))
    return unit(centres[:, phase] + sigma * rng.normal(size=(IMAGES, len(phase), WIDTH)) / WIDTH**0.5)


def arc(rng, speeds):
    """A great circle, a fresh one for every image."""
    start = unit(rng.normal(size=(IMAGES, 1, WIDTH)))
    other = rng.normal(size=(IMAGES, 1, WIDTH))
    other = unit(other - (other * start).sum(axis=-1, keepdims=True) * start)
    angle = np.concatenate([[0.0], np.cumsum(speeds)])[None, :, None]
    return np.cos(angle) * start + np.sin(angle) * other


def walk(rng, speeds):
    """A random walk on the sphere."""
    x = [unit(rng.normal(size=(IMAGES, WIDTH)))]
    for speed in speeds:
        x.append(unit(x[-1] + speed * rng.normal(size=(IMAGES, WIDTH)) / WIDTH**0.5))
    return np.stack(x, axis=1)


def turned(rng, x, angle):
    """Turn states by an angle, each in a random direction."""
    other = rng.normal(size=x.shape)
    other = unit(other - (other * x).sum(axis=-1, keepdims=True) * x)
    return np.cos(angle) * x + np.sin(angle) * other


def drifting_phases(rng, lengths, speed, jump):
    """A random walk inside phases, of `speed` radians a layer, and jumps of `jump` radians between them."""
    x = [unit(rng.normal(size=(IMAGES, WIDTH)))]
    firsts = set(np.cumsum(lengths).tolist())
    for layer in range(1, sum(lengths)):
        x.append(turned(rng, x[-1], jump if layer in firsts else speed))
    return np.stack(x, axis=1)


def random_lengths(rng, layers, k, least):
    cuts = np.sort(rng.integers(0, layers - k * least + 1, k - 1))
    return tuple((np.diff(np.concatenate([[0], cuts, [layers - k * least]])) + least).tolist())


PACES = {
    "constant": lambda rng, steps: np.ones(steps),
    "uneven": lambda rng, steps: rng.exponential(size=steps) + 0.05,
    "growing": lambda rng, steps: np.geomspace(1, 10, steps),
}


def planted_case(seed, sigma, least=3):
    """Return states of 12 or 24 layers with 1 to 4 phases, and the lengths."""
    rng = np.random.default_rng(seed)
    layers, k = (12, 24)[seed % 2], 1 + (seed // 2) % 4
    lengths = random_lengths(rng, layers, k, least)
    return planted(rng, lengths, sigma), lengths


def drifting_case(seed, kind, pace):
    """Return states of 12 or 24 layers along an arc of 0.5 to pi, or a walk of 1 to 6, in all."""
    rng = np.random.default_rng(seed)
    layers = (12, 24)[seed % 2]
    speeds = PACES[pace](rng, layers - 1)
    whole = rng.uniform(0.5, np.pi) if kind == "arc" else rng.uniform(1, 6)
    return {"arc": arc, "walk": walk}[kind](rng, whole * speeds / speeds.sum())


def find(states):
    """Find the phases of states whose first layer is 1: the embedding put before them is in no phase."""
    return raptor.find_phases(np.concatenate([states[:, :1], states], axis=1), draws=1)


def recovered(seeds, sigma, least=3):
    """Return the share of seeds whose number of phases and boundaries are both found."""
    right = 0
    for seed in range(seeds):
        states, lengths = planted_case(seed, sigma, least)
        found = find(states)
        best = found.by_k[found.suggested_k].phases.lengths
        right += best == lengths
    return right / seeds


def called_one(seeds, kind, pace):
    """Return the share of seeds in which a drift is not taken for phases."""
    return sum(find(drifting_case(seed, kind, pace)).suggested_k == 1 for seed in range(seeds)) / seeds


if __name__ == "__main__":
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    for least in (3, 2):
        for sigma in (0.25, 0.5, 1.0):
            print(f"phases of at least {least} layers, sigma {sigma}: {recovered(seeds, sigma, least):.3f}")
    for kind, pace in [("arc", "constant"), ("arc", "uneven"), *(("walk", pace) for pace in PACES)]:
        print(f"{kind} of {pace} speed: suggested_k = 1 in {called_one(seeds, kind, pace):.3f}")
