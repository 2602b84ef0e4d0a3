"""Results in a notebook, and the page from Python."""

from __future__ import annotations

import re
from functools import partial

import pytest
import torch

import raptor
from raptor.core.phases import Phases
from raptor.dynamics import survey
from raptor.dynamics.lyapunov import lyapunov_exponents
from raptor.dynamics.options import DynamicsOptions
from raptor.dynamics.text import verdict
from raptor.models.surrogate import build_surrogate
from raptor.models.vit import ViT, ViTConfig


@pytest.fixture(scope="module")
def teacher():
    torch.manual_seed(0)
    return raptor.load_model(ViT(ViTConfig(image_size=32, patch_size=8, width=16, depth=6, heads=2, n_classes=12)))


@pytest.fixture(scope="module")
def images(teacher):
    return raptor.load_images("scenes", teacher, "test", 24, batch_size=8)


@pytest.fixture(scope="module")
def student(teacher):
    return build_surrogate(teacher, Phases((3, 3)), "teacher")


@pytest.fixture(autouse=True)
def few_vectors(monkeypatch):
    monkeypatch.setattr(survey, "lyapunov_exponents", partial(lyapunov_exponents, vectors=2, iterations=1))


def test_results_show_their_numbers(teacher, student, images):
    found = raptor.find_phases(teacher, images, k=2)
    shown = found._repr_html_()
    assert str(found.phases) in shown
    assert "<svg" in shown
    measured = raptor.fidelity(student, images)
    shown = measured._repr_html_()
    assert f"{measured.by_layer['r2'].mean['all'][-1]:.3f}" in shown
    assert shown.count("<tr>") == 1 + len(measured.by_layer["r2"].mean)
    dynamics = raptor.measure_dynamics(
        teacher, images, options=DynamicsOptions(perturbation_images=1, lyapunov_images=1)
    )
    shown = dynamics._repr_html_()
    verdicts = {verdict(claim) for claim in dynamics.claims}
    assert sum(shown.count(f">{word}</span></td>") for word in verdicts) == len(dynamics.claims) == 14


@pytest.mark.long
def test_the_page_from_python(teacher, student, images, tmp_path):
    page = raptor.report(teacher, student, images, perturbation_images=1, lyapunov_images=1)
    assert page.save(tmp_path / "report.html") == tmp_path / "report.html"
    text = (tmp_path / "report.html").read_text()
    for section in ("Depth", "Depth film", "Surrogates", "Dynamics", "Provenance"):
        assert f"<h2>{section}</h2>" in text
    assert not re.search(r"(?:src|href)=\"(?!#|data:)", text.split("<script id=")[0])
    assert "<iframe srcdoc=" in page._repr_html_()
    assert "What is missing" not in text
