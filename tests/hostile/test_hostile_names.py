"""Names from anybody, of models, data, files and classes: they are names and nothing else, wherever they end up."""

from __future__ import annotations

import csv
import json
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import datasets
import pytest

from hostile import check_refused, small_vit, vit  # noqa: F401
from pictures import encoded, picture
from raptor.render.charts import rows_in

IDS = [
    "..", "../..", "a/../b", "a/b/c", "/a", "a/", "a b/c", "a\nb/c", "a/b\0", "\x1b[31mred\x1b[0m/x", "é/ü", "ℋ/x",
    "²/³", "\u202egro.elpmaxe/x", "\udcff/x", "x" * 97, "x" * 5000, "x/" + "y" * 5000, "a--b/c", "a..b/c", "-a/b",
    ".a/b", "a/b.git", "https://huggingface.co/a/b", "file:///etc/passwd", "~/x", "$HOME/x", "a/b@main", "%2e%2e/x",
    "a\\b", "|ls", "$(ls)", "a/b\r\nX-Header: 1", "<script>alert(1)</script>", "[/red]", "[bold", "{0.__class__}",
    "%s%n", "None", "con", "", " ",
]  # fmt: skip


@pytest.mark.parametrize("name", IDS, ids=lambda name: ascii(name)[:40])
def test_a_hub_id_is_one_or_none(call, tmp_path, monkeypatch, name):
    (tmp_path / "here" / "below").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here" / "below")
    check_refused(call("inspect", name, "--json"))
    check_refused(call("inspect", "scenes", "--data", name, "--json"))


@pytest.mark.parametrize(
    "name",
    ["timm:", "timm:hf-hub:a/b", "timm:../x", "timm:a\0", "timm:x.y.z", "dinov2:", "dinov2:../../x",
     "dinov2:vits14_reg5", "dinov2:vits14", "stitch:", "stitch:@", "stitch:scenes@1", "stitch:scenes:k2@",
     "stitch:scenes:k2@²", "stitch:scenes:k2@-1", "stitch:scenes:k2@99", "stitch:scenes:k2@" + "9" * 5000,
     "stitch:" * 500 + "scenes:k2" + "@1" * 500, "scenes:", "scenes:k9", "scenes:k2:k2", ":", "::", "timm", "dinov2",
     "stitch"],
    ids=lambda name: ascii(name)[:40],
)  # fmt: skip
def test_a_model_specification_is_one_or_none(call, name):
    check_refused(call("inspect", name, "--json"))


LONG = "x" * 300  # more than a file can be called


@pytest.mark.parametrize(
    "arguments",
    [
        ("inspect", LONG), ("inspect", "scenes", "--data", LONG), ("inspect", "scenes", "--data", f"{LONG}.mat"),
        ("inspect", "scenes", "--data", f"{LONG}.parquet"), ("inspect", "scenes", "--out", LONG),
        ("inspect", "scenes", "--head", LONG), ("inspect", "dinov2:vits14", "--weights", LONG),
        ("phases", "--matrix", LONG), ("phases", "scenes", "--group", LONG), ("fidelity", LONG), ("report", LONG),
        ("probe", "scenes", "--cache", LONG, "--task", "classify", "--images", 24), ("study", LONG, "--out", LONG),
        ("run", "scenes", "--out", LONG), ("export", "scenes", "--out", LONG), ("inspect", "scenes", "--device", LONG),
        ("distill", "scenes", "--phases", LONG), ("distill", "scenes", "--k", LONG), ("inspect", f"stitch:{LONG}@1"),
    ],
    ids=lambda arguments: " ".join(map(str, arguments))[:40],
)  # fmt: skip
def test_names_that_are_too_long(call, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    check_refused(call(*arguments, "--json", "--quiet"))


class Elements(HTMLParser):
    """All elements of a page, with their attributes, and what stands in scripts."""

    def __init__(self, text: str):
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data):
        if self.found and self.found[-1][0] == "script":
            self.scripts[-1] += data

    def handle_endtag(self, tag):
        self.found.append((f"/{tag}", {}))


ASK = "this.ownerDocument.documentElement.dataset.hit='yes'"
EVIL = {
    "model": f"<img src=x onerror={ASK}>[bold]",
    "data": f'"><svg onload={ASK}>',
    "class": f"</script><script>document.documentElement.dataset.hit='yes'</script>=cmd()\"',<b onclick={ASK}>",
    "file": f"'><img src=y onerror={ASK}>[/red].png",
}


@pytest.fixture(scope="module")
def evil(tmp_path_factory):
    """Runs of a model, a folder, a file and classes with names that are code, and their page; with what was printed."""
    import contextlib
    import io
    import sys

    from raptor.__main__ import main

    root = tmp_path_factory.mktemp("evil")

    def run(*arguments):
        with contextlib.redirect_stdout(io.StringIO()) as out, pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", ["raptor", *map(str, arguments)])
            with pytest.raises(SystemExit) as stop:
                main()
        assert not stop.value.code
        return out.getvalue()

    model, photos = small_vit(root / EVIL["model"].replace("/", ":")), root / EVIL["data"].replace("/", ":")
    photos.mkdir()
    for value in range(120):
        picture(value).save(photos / f"{value}.png")
    (photos / EVIL["file"].replace("/", ":")).write_text("no image")
    rows = [{"image": {"bytes": encoded(value), "path": None}, "label": EVIL["class"] * (value % 2) or "plain"}
            for value in range(16)]  # fmt: skip
    datasets.Dataset.from_list(rows).to_parquet(root / "classes.parquet")
    said = run("inspect", model, "--data", photos, "--out", root / "runs" / "<i>inspect")
    said += run("phases", model, "--data", photos, "--images", 32, "--out", root / "runs" / "phases")
    labelled = ("--data", root / "classes.parquet", "--batch-size", 8)
    said += run("dynamics", model, *labelled, "--out", root / "runs" / "dynamics")
    run("report", root / "runs", "--out", root / "report.html")
    return root, said


def test_names_are_printed_as_they_are(evil):
    _, said = evil
    flat = re.sub(r"[\s│]", "", said)  # tables break lines where they like
    for name in ("model", "file"):
        assert re.sub(r"\s", "", EVIL[name].replace("/", ":")) in flat


def test_names_are_no_elements_of_the_page(evil):
    root, _ = evil
    page = Elements((root / "report.html").read_text())
    tags = [tag for tag, _ in page.found]
    assert tags.count("script") == 3
    assert {"img", "svg", "b", "i", "iframe", "object", "link"}.isdisjoint(tags)
    assert not [name for _, attributes in page.found for name in attributes if name.startswith("on")]
    # Names are there all the same, each letter of them.
    data = json.loads(page.scripts[0], parse_constant=lambda constant: 1 / 0)
    panels = [panel for figure in data["figures"].values() for panel in figure["panels"]]
    assert EVIL["class"] in {row.get("class") for spec in panels for row in rows_in(spec)}


def test_names_are_cells_of_tables_and_text_of_pictures(evil):
    root, _ = evil
    folder = root / "figures"
    with open(folder / "dynamics-trajectories.csv", newline="") as file:
        classes = {row["class"] for row in csv.DictReader(file)}
    assert EVIL["class"] in classes
    drawn = sorted(folder.glob("*.svg"))
    assert len(drawn) > 5
    for file in drawn:
        tree = ElementTree.parse(file)
        tags = {element.tag.rpartition("}")[2] for element in tree.iter()}
        assert tags <= {"svg", "g", "path", "rect", "line", "text", "defs", "clipPath", "linearGradient", "stop"}, file
        assert not [name for element in tree.iter() for name in element.attrib if name.lower().startswith("on")]
    texts = "".join("".join(ElementTree.parse(file).getroot().itertext()) for file in drawn)
    assert EVIL["class"][:20] in texts


def test_names_do_nothing_in_a_browser(evil):
    browser = pytest.importorskip("test_page_in_browser", reason="playwright is not installed")
    if browser.CHROMIUM is None:
        pytest.skip("there is no chromium: apt-get install chromium")
    root, _ = evil
    with browser.opened(root / "report.html") as page:
        assert page.evaluate("document.documentElement.dataset.hit") is None
        assert page.errors == []
        assert [url for url in page.asked if not url.startswith(("file:", "data:", "blob:"))] == []
        page.hover(".chart svg")
        assert page.evaluate("document.documentElement.dataset.hit") is None
