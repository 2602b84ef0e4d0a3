"""Run in a process of its own: load saved surrogates with transformers alone and compare with what raptor computed.

Prints one JSON object: the largest differences of hidden states, output and logits by directory.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import json
import sys
from pathlib import Path


class NoRaptor(importlib.abc.MetaPathFinder):
    """Refuse to import raptor, as if it were not installed."""

    def find_spec(self, name, path=None, target=None):
        """Raise for raptor."""
        if name.split(".")[0] == "raptor":
            raise ModuleNotFoundError(f"No module named {name!r}")


def main(folders: list[str]) -> None:
    """Compare every directory with the file `wanted.pt` in it."""
    sys.meta_path.insert(0, NoRaptor())
    sys.modules["torchvision"] = None  # that of the tests has no build for this torch
    import torch
    import transformers
    from PIL import Image

    transformers.utils.logging.disable_progress_bar()
    found = {}
    for folder in map(Path, folders):
        wanted = torch.load(folder / "wanted.pt", weights_only=True)
        model = transformers.AutoModel.from_pretrained(folder, trust_remote_code=True)
        processor = transformers.AutoImageProcessor.from_pretrained(folder)
        pixels = processor(Image.open(folder / "picture.png"), return_tensors="pt")["pixel_values"]
        with torch.no_grad():
            output = model(wanted["pixels"], output_hidden_states=True)
            far = {
                "states": torch.stack(output.hidden_states, dim=1) - wanted["states"],
                "readout": output.last_hidden_state - wanted["readout"],
                "picture": pixels[0] - wanted["picture"],
            }
            if wanted["logits"] is not None:
                far["logits"] = model.classify(output.last_hidden_state) - wanted["logits"]
        found[folder.name] = {name: float(value.abs().max()) for name, value in far.items()}
    assert importlib.util.find_spec("torch") is not None
    assert not any(name.split(".")[0] == "raptor" for name in sys.modules)
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
