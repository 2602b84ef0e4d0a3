"""Make the pictures of README, start page and gallery from a finished `raptor demo`.

Usage: python tools/picture_page.py RUN [CHROMIUM]. It needs playwright and a chromium.
"""

from __future__ import annotations

import io
import shutil
import sys
from pathlib import Path

from PIL import Image

FIGURES = Path(__file__).parent.parent / "docs" / "figures"
WIDE, HIGH = 1600, 1000  # pixels of the wide picture
MOST = 3_000_000  # bytes of the animation
# Names of the gallery's pictures, and the files that a run has beside its page.
GALLERY = {
    "similarity": "phases-similarity", "certainty": "phases-certainty",
    "surrogates-fidelity": "page-surrogates-fidelity", "surrogates-cost": "page-surrogates-cost",
    "convergence": "dynamics-convergence", "speed": "dynamics-speed", "ranks": "dynamics-ranks", "dmd": "dynamics-dmd",
    "causal-matrix": "intervene-causal-matrix", "film": "film-film",
}  # fmt: skip


def pictures(run: Path, chromium: str) -> None:
    """Write the wide picture and the animation of ruler and film.

    Parameters
    ----------
    run
        Directory of a finished demo.
    chromium
        The browser.
    """
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDE, "height": HIGH})
        page.goto(f"file://{(run / 'report.html').resolve()}")
        page.wait_for_function("document.documentElement.dataset.drawn === 'yes'", timeout=120_000)
        page.screenshot(path=FIGURES / "demo.png")
        page.set_viewport_size({"width": 1100, "height": 720})
        page.wait_for_timeout(1500)
        page.eval_on_selector(".film .reels", "(one) => scrollTo(0, one.getBoundingClientRect().top + scrollY - 120)")
        page.wait_for_timeout(800)
        frames = []
        for layer in range(int(page.get_attribute("#layer", "max") or 0) + 1):
            page.eval_on_selector(
                "#layer", f"(one) => {{ one.value = {layer}; one.dispatchEvent(new Event('input')); }}"
            )
            page.wait_for_timeout(150)
            shown = Image.open(io.BytesIO(page.screenshot())).convert("RGB").resize((880, 576))
            frames.append(shown.quantize(96, dither=Image.Dither.NONE))
        browser.close()
    animation = FIGURES / "ruler.gif"
    frames[0].save(animation, save_all=True, append_images=frames[1:], duration=500, loop=0, optimize=True)
    if animation.stat().st_size > MOST:
        raise SystemExit(f"{animation} has {animation.stat().st_size:,} bytes, more than {MOST:,}")


def gallery(run: Path) -> None:
    """Copy the figures of the gallery, with few colours.

    Parameters
    ----------
    run
        Directory of a finished demo.
    """
    (FIGURES / "gallery").mkdir(exist_ok=True)
    for name, file in GALLERY.items():
        picture = Image.open(run / "figures" / f"{file}.png").convert("RGB")
        picture.quantize(128, dither=Image.Dither.NONE).save(FIGURES / "gallery" / f"{name}.png", optimize=True)


if __name__ == "__main__":
    found = sys.argv[2] if len(sys.argv) > 2 else shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        raise SystemExit("there is no chromium")
    pictures(Path(sys.argv[1]), found)
    gallery(Path(sys.argv[1]))
