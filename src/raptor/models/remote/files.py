"""Files that let transformers load a saved surrogate where raptor is not installed.

They are `modeling_raptor.py` (the code, with the entry `auto_map` of config.json) and `preprocessor_config.json`.
raptor itself reads neither: it never runs code of a repository.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from raptor.core.preprocessing import Preprocessing
from raptor.runtime.files import writing
from raptor.runtime.notes import note

SOURCE = Path(__file__).with_name("modeling_raptor.py")
PROCESSOR = "preprocessor_config.json"
AUTO_MAP = {
    name: f"{SOURCE.stem}.{kind}" for name, kind in (("AutoConfig", "RaptorConfig"), ("AutoModel", "RaptorModel"))
}
INSTALL = "pip install raptor-vit"
# Libraries of teachers whose surrogates only raptor can load, in words.
NEED_RAPTOR = {"timm": "a timm model", "python": "a model of your own code"}


def is_self_contained(teacher: dict[str, Any]) -> bool:
    """Return whether transformers alone can load a surrogate, from the description of its teacher."""
    return teacher.get("library") == "transformers"


def write_hub_files(folder: Path, teacher: dict[str, Any], preprocessing: Preprocessing) -> None:
    """Write the modelling file, where it is enough to load the surrogate, and the image processor's configuration.

    Parameters
    ----------
    folder
        Directory of the surrogate.
    teacher
        Description of the teacher, as in `RaptorConfig`.
    preprocessing
        Preprocessing of images.
    """
    if is_self_contained(teacher):
        with writing(folder / SOURCE.name) as file:
            file.write(SOURCE.read_bytes())
    elif library := NEED_RAPTOR.get(str(teacher.get("library"))):
        note(f"a surrogate of {library} can be loaded only where raptor is installed ({INSTALL})")
    processor = processor_config(preprocessing)
    if processor is not None:
        with writing(folder / PROCESSOR) as file:
            file.write(json.dumps(processor, indent=2).encode() + b"\n")


def processor_config(preprocessing: Preprocessing) -> dict[str, Any] | None:
    """Return a preprocessing as an image processor of transformers, for AutoImageProcessor.

    None where no image processor does the same: images that cover a box which is not square, or crops whose offset is
    rounded to the nearest pixel.
    """
    resize, crop = preprocessing.resize, preprocessing.crop
    covers = resize is not None and preprocessing.fit == "cover"
    if (covers and resize is not None and resize[0] != resize[1]) or preprocessing.rounding != "down":
        return None
    size: dict[str, int] | None = None
    if resize is not None:
        size = {"shortest_edge": resize[0]} if covers else {"height": resize[0], "width": resize[1]}
    return {
        "image_processor_type": "CLIPImageProcessor",
        "do_resize": size is not None,
        **({} if size is None else {"size": size}),
        "resample": preprocessing.resample,
        "do_center_crop": True,
        "crop_size": {"height": crop[0], "width": crop[1]},
        "do_rescale": True,
        "rescale_factor": preprocessing.scale,
        "do_normalize": True,
        "image_mean": list(preprocessing.mean),
        "image_std": list(preprocessing.std),
        "do_convert_rgb": True,
    }
