"""Tables from anybody: columns and labels are what they say or refused, and rows name no files of elsewhere."""

from __future__ import annotations

import json

import datasets
import pyarrow as pa
import pyarrow.parquet
import pytest

import raptor
from hostile import check_refused, vit  # noqa: F401
from pictures import PLAIN, encoded, labels, levels, picture
from raptor.errors import DataError

N = 4
STRUCT = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
IMAGES = pa.array([{"bytes": encoded(10 * value), "path": None} for value in range(N)], STRUCT)
LEVELS = [10 * value for value in range(N)]


def parquet(path, **columns):
    """Write a table of four rows."""
    pyarrow.parquet.write_table(pa.table(columns), path)
    return path


def typed(path, features, **columns):
    """Write a table with a description of its columns as `datasets` keeps it."""
    about = {b"huggingface": json.dumps({"info": {"features": features}}).encode()}
    pyarrow.parquet.write_table(pa.table(columns).replace_schema_metadata(about), path)
    return path


# Columns that hold no images, whatever they are called.
NO_IMAGES = {
    "paths as bytes": [{"bytes": "/etc/passwd"}] * N,
    "numbers as bytes": [{"bytes": 5}] * N,
    "lists": [{"bytes": [b"a"]}] * N,
    "nested": [{"bytes": {"bytes": b"x"}}] * N,
    "paths alone": [{"path": "/etc/passwd"}] * N,
    "words": ["/etc/passwd"] * N,
    "lists of images": [[encoded(1)]] * N,
    "nothing": pa.nulls(N),
    "numbers": [1, 2, 3, 4],
}


@pytest.mark.parametrize("kind", NO_IMAGES)
def test_columns_without_images_are_told(call, vit, tmp_path, kind):  # noqa: F811
    path = parquet(tmp_path / "a.parquet", image=NO_IMAGES[kind])
    check_refused(call("inspect", vit, "--data", path), "no image column", "--image-column")
    check_refused(call("inspect", vit, "--data", path, "--image-column", "image"), "not images")


@pytest.mark.parametrize("content", [b"", b"junk", encoded(1)[:30], None], ids=str)
def test_bytes_that_are_no_images_are_damaged(call, vit, tmp_path, content):  # noqa: F811
    path = parquet(tmp_path / "a.parquet", image=pa.array([content] * N, pa.binary()))
    check_refused(call("inspect", vit, "--data", path), "4 of 4 images cannot be read", "a.parquet[0] (not an image)")


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary_view()], ids=str)
def test_images_in_any_kind_of_bytes(tmp_path, kind):
    path = parquet(tmp_path / "a.parquet", **{"": pa.array([encoded(level) for level in LEVELS], kind)})
    assert levels(raptor.load_images(path, PLAIN)) == LEVELS


def test_other_columns_are_never_decoded(tmp_path):
    """A second image, sound or film may be damaged, huge, or of a kind that needs a library that is not there."""
    junk = pa.array([{"bytes": b"junk", "path": "/etc/passwd"}] * N, STRUCT)
    features = {name: {"_type": kind} for name, kind in (("image", "Image"), ("b", "Image"), ("c", "Audio"))}
    path = typed(tmp_path / "a.parquet", features, image=IMAGES, b=junk, c=junk)
    assert levels(raptor.load_images(path, PLAIN)) == LEVELS


PATHS = [
    "/etc/passwd",
    "../secret.png",
    "{root}/secret.png",
    "a/../../secret.png",
    "link.png",
    "circle.png",
    "\0",
    "x" * 5000,
]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: ascii(path)[:30])
def test_rows_name_no_files_of_elsewhere(call, vit, tmp_path, path):  # noqa: F811
    (tmp_path / "set" / "a").mkdir(parents=True)
    picture(77).save(tmp_path / "secret.png")
    (tmp_path / "set" / "link.png").symlink_to(tmp_path / "secret.png")
    (tmp_path / "set" / "circle.png").symlink_to(tmp_path / "set" / "circle.png")
    rows = [{"bytes": None, "path": path.format(root=tmp_path)}] * N
    table = parquet(tmp_path / "set" / "a.parquet", image=pa.array(rows, STRUCT))
    said = "cannot be read" if path == "x" * 5000 else "a.parquet[0] names the file"
    check_refused(call("inspect", vit, "--data", table), said)


def test_rows_may_name_files_below_their_table(tmp_path):
    (tmp_path / "deep").mkdir()
    picture(77).save(tmp_path / "deep" / "a.png")
    rows = [{"bytes": None, "path": name} for name in ("deep/a.png", str(tmp_path / "deep" / "a.png"))]
    path = parquet(tmp_path / "a.parquet", image=pa.array(rows, STRUCT))
    assert levels(raptor.load_images(path, PLAIN)) == [77, 77]


# Columns that are not labels: guessing skips them, and naming one is an error.
NO_LABELS = {
    "ids": [0, 1, 2**62, 3],
    "larger ids": pa.array([0, 1, 2**63 + 5, 3], pa.uint64()),
    "just too many": [0, 1, 2, 100_000],
    "below zero": [-1, 0, 1, 2],
    "floats": [0.0, 1.0, 2.0, float("nan")],
    "lists": [["a"]] * N,
    "structs": [{"a": 1}] * N,
    "times": pa.array([1, 2, 3, 4], pa.timestamp("s")),
    "decimals": pa.array([0, 1, 2, 3]).cast(pa.decimal128(20, 0)),
    "gaps": [0, None, 1, 2],
    "nothing": pa.nulls(N),
    "bytes": [b"a", b"b", b"a", b"b"],
}


@pytest.mark.parametrize("kind", NO_LABELS)
def test_labels_that_are_no_classes(tmp_path, kind):
    path = parquet(tmp_path / "a.parquet", image=IMAGES, label=NO_LABELS[kind])
    images = raptor.load_images(path, PLAIN)
    assert images.classes is None
    assert levels(images) == LEVELS
    with pytest.raises(DataError, match="label column 'label'"):
        raptor.load_images(path, PLAIN, label_column="label")


@pytest.mark.parametrize(
    ("values", "classes", "numbers"),
    [
        ([True, False, True, False], ("0", "1"), [1, 0, 1, 0]),
        (pa.array(["b", "a", "b", "a"]).dictionary_encode(), ("a", "b"), [1, 0, 1, 0]),
        (["x" * 1_000_000, "", "", "y\n\0"], ("", "x" * 1_000_000, "y\n\0"), [1, 0, 0, 2]),
        ([0, 99_999, 0, 0], tuple(map(str, range(100_000))), [0, 99_999, 0, 0]),
    ],
    ids=["truth", "dictionary", "long", "most"],
)
def test_labels_that_are_classes_all_the_same(tmp_path, values, classes, numbers):
    images = raptor.load_images(parquet(tmp_path / "a.parquet", image=IMAGES, label=values), PLAIN)
    assert images.classes == classes
    assert labels(images) == numbers


def test_labels_beyond_their_names_are_refused(call, vit, tmp_path):  # noqa: F811
    features = {"image": {"_type": "Image"}, "label": {"names": ["a", "b"], "_type": "ClassLabel"}}
    numbers = pa.array([0, 1, 5, 1])
    path = typed(tmp_path / "a.parquet", features, image=IMAGES, label=numbers)
    for verb in (("inspect",), ("probe", "--task", "classify")):
        answer = call(verb[0], vit, *verb[1:], "--data", path, "--json")
        check_refused(answer, "the column 'label' has the label 5, but only 2 class names")


@pytest.mark.parametrize(
    "features",
    [
        {"image": {"_type": "os.system"}},
        {"image": {"_type": 5}},
        {"image": "x"},
        [],
        "x",
    ],
    ids=str,
)
def test_a_description_of_columns_that_is_none(call, vit, tmp_path, features):  # noqa: F811
    check_refused(call("inspect", vit, "--data", typed(tmp_path / "a.parquet", features, image=IMAGES)), "a.parquet")


def test_a_description_nested_without_end(call, vit, tmp_path):  # noqa: F811
    table = pa.table({"image": IMAGES}).replace_schema_metadata({b"huggingface": b"[" * 100_000})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    check_refused(call("inspect", vit, "--data", tmp_path / "a.parquet"), "a.parquet")


def test_names_of_columns(call, vit, tmp_path):  # noqa: F811
    twice = pa.Table.from_arrays([IMAGES, IMAGES], names=["image", "image"])
    pyarrow.parquet.write_table(twice, tmp_path / "twice.parquet")
    check_refused(call("inspect", vit, "--data", tmp_path / "twice.parquet"), "twice.parquet")
    odd = parquet(tmp_path / "odd.parquet", **{"\x1b[31mred\n<script>": ["x"] * N})
    check_refused(call("inspect", vit, "--data", odd), r"its columns are \x1b[31mred <script>")
    check_refused(call("inspect", vit, "--data", odd, "--image-column", "\x1b[31mred\n<script>"), "not images")
    good = parquet(tmp_path / "good.parquet", image=IMAGES)
    check_refused(call("inspect", vit, "--data", good, "--label-column", "no\nsuch"), r"'no\nsuch'")


def test_data_sets_of_the_hub_name_no_files_of_elsewhere(tmp_path, monkeypatch):
    """A table as the library gives it, whose rows name files."""
    picture(77).save(tmp_path / "secret.png")
    (tmp_path / "cache").mkdir()
    picture(5).save(tmp_path / "cache" / "a.png")
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")

    def loaded(*names):
        rows = {"image": [{"bytes": None, "path": str(name)} for name in names]}
        features = datasets.Features({"image": datasets.Image(decode=False)})
        table = datasets.Dataset.from_dict(rows, features=features)
        monkeypatch.setattr("datasets.load_dataset", lambda *_, **__: {"train": table})
        return levels(raptor.load_images("some/set:train", PLAIN))

    assert loaded(tmp_path / "cache" / "a.png") == [5]
    with pytest.raises(DataError, match="names the file"):
        loaded(tmp_path / "secret.png")
