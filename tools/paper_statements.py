"""What the paper says on the questions of the studies, in our words and with its published numbers."""

from __future__ import annotations

PAPER_EFFECT = 0.06  # change of R2 with stochastic depth, from about .88 at rate 0 to about .94 at .6

PAPER = {
    "controls": "The paper has no such controls.",
    "stochastic-depth": "Figure 4: with a higher stochastic depth rate, layers become more similar and Raptors closer "
    "to their teachers, while accuracy peaks at a middle rate. Similarity predicts the fidelity of a Raptor. A summary "
    "gives an R2 of about .88 at rate 0 and about .94 at .6. A later version says that rates of .7 to .9 train badly.",
    "emergence": "Figure 11: training (with a stochastic depth rate of .3) increases the similarity within phases and "
    "improves the reconstruction of cls. A Raptor also reconstructs a ViT with random weights.",
    "overfitting": "Figure 13 of the later version: overfitting degrades blocks and R2 together.",
    "partitions": "Figure 3: Raptors with the found partitions are near or above one standard deviation over ten "
    "random partitions. A later version also has shuffled, non-contiguous assignments.",
    "k-curve": "Table 1 and Figure 5: k = 2, 3, 4 recover 94.4, 97.0, 97.3% of DINOv2-B's top-1 (a later version: "
    "96.1, 98.2, 98.5%). Most of the gain is from 2 to 3.",
    "ablation": "Table 2, k = 3, ImageNet top-1: teacher forcing alone 1.2, + autoregressive 62.1, + depth scaling "
    "63.3, + weighted cls 67.9, + end-to-end stage 81.2, + probe fine-tuning 82.1 (a later version: 3.9, 72.7, 75.2, "
    "76.7, 82.4, 83.0).",
    "gallery": "Figure 1: all models shown have contiguous blocks of similar layers.",
}

# What these studies cannot say, whatever they find.
LIMITS = {
    "controls": "How much excess a network has that is tied only in part.",
    "stochastic-depth": "The paper's ViT is larger, was trained for longer and is more accurate. Only one rate has "
    "several seeds; the other rates show the shape of the curve.",
    "emergence": "The paper's trained ViT has a stochastic depth rate of .3; these teachers have none.",
    "overfitting": "One size of subset, with as many steps as the other teachers.",
    "partitions": "Students are trained for a few hundred steps; longer training may make up for a worse partition.",
    "k-curve": "The elbow depends on the largest k and on the length of training.",
    "ablation": "The paper trains a thousand times as many steps, and Table 2 has no intervals.",
    "gallery": "The paper's models are larger, and most are trained without labels.",
}
