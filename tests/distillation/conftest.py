"""What tests of distillation share."""

from small_vit import vit  # noqa: F401
