"""Small-scale studies: where phases come from, and what surrogates need."""

from raptor.studies import ablation, emergence, gallery, k_curve, partitions, stochastic_depth
from raptor.studies.study import Study

STUDIES: dict[str, Study] = {
    "stochastic-depth": stochastic_depth.STUDY,
    "partitions": partitions.STUDY,
    "emergence": emergence.STUDY,
    "ablation": ablation.STUDY,
    "k-curve": k_curve.STUDY,
    "gallery": gallery.STUDY,
}
