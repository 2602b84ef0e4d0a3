"""`raptor.push`: publish a saved surrogate on the Hugging Face hub."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from raptor.distillation.model_card import model_card
from raptor.distillation.options import PushOptions
from raptor.errors import ModelNotFoundError, OptionError, OutputError, one_line
from raptor.models.checkpoints import SURROGATE_TYPE, is_of_type
from raptor.models.pretrained import RaptorConfig
from raptor.models.remote.metadata import check_licence
from raptor.render.notebook import HtmlRepr
from raptor.runtime.optional_imports import HUB_ID

CARD = "README.md"


@dataclass(frozen=True)
class PushResult(HtmlRepr):
    """A surrogate that was published, or that would be.

    Parameters
    ----------
    id, url
        Hub id of the model, and its page; the page is None if nothing was uploaded.
    license, private
        Licence in its card; whether only its owner sees it.
    files
        Size in bytes of every file.
    uploaded
        Whether the files were uploaded.
    """

    id: str
    url: str | None
    license: str
    private: bool
    files: dict[str, int]
    uploaded: bool


def push(
    run: str | Path, id: str, options: PushOptions | None = None, announce: Callable[[str], None] = lambda text: None
) -> PushResult:
    """Upload a saved surrogate to the hub, with a model card that names its place there.

    Parameters
    ----------
    run
        Directory that `raptor distill` or `save_pretrained` wrote.
    id
        Hub id to upload to, such as `name/raptor-dinov2-base`; created if it does not exist.
    options
        Licence, visibility, and whether to upload at all.
    announce
        Called with one line of text before the upload: what is uploaded where.
    """
    chosen = options or PushOptions()
    if "/" not in id or not HUB_ID.fullmatch(id):
        raise OptionError(f"{id[:200]!r} is not a hub id; use OWNER/NAME, such as somebody/raptor-dinov2-base")
    if chosen.license is not None:
        check_licence(chosen.license)
    folder = _surrogate_in(Path(run))
    config = RaptorConfig.from_pretrained(folder)
    licence = chosen.license or str(config.provenance.get("license", "unknown"))
    with tempfile.TemporaryDirectory(prefix="raptor-push-") as temporary:
        prepared = Path(temporary)
        for file in sorted(folder.iterdir()):
            if file.is_file() and not file.name.startswith("."):
                shutil.copy(file, prepared)
        (prepared / CARD).write_text(model_card(config, id, licence), encoding="utf-8")
        files = {file.name: file.stat().st_size for file in sorted(prepared.iterdir())}
        listed = ", ".join(f"{name} ({size:,} bytes)" for name, size in files.items())
        announce(f"{'private' if chosen.private else 'public'} model {id}, licence {licence}: {listed}")
        url = None if chosen.dry_run else _upload(prepared, id, chosen.private)
    return PushResult(id, url, licence, chosen.private, files, url is not None)


def _surrogate_in(run: Path) -> Path:
    """Return the folder of the surrogate in a run directory; raise a ModelNotFoundError without one."""
    for folder in (run / "model", run):
        if is_of_type(folder, SURROGATE_TYPE) and (folder / "model.safetensors").is_file():
            return folder
    raise ModelNotFoundError(f"{str(run)!r} does not contain a surrogate; use a directory that raptor distill wrote")


def _upload(folder: Path, id: str, private: bool) -> str:
    from huggingface_hub import HfApi, ModelCard

    api = HfApi(library_name="raptor-vit")
    try:
        ModelCard((folder / CARD).read_text(encoding="utf-8")).validate()  # before anything is created
        url = api.create_repo(id, private=private, exist_ok=True)
        api.upload_folder(repo_id=id, folder_path=folder, commit_message="Upload a Raptor surrogate")
    except Exception as error:  # the client raises its own classes and those of its HTTP library
        raise OutputError(
            f"the hub did not accept {id!r}: {one_line(error)}; log in with 'hf auth login', and check that you may "
            "write to this id"
        ) from error
    return str(url)
