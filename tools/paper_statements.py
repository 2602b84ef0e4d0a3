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
    "controls": "How much excess a network has that is tied only in part: the student of a tied teacher starts "
    "from copies of the teacher's blocks, nearly all of them the right ones, so the control shows that exact "
    "tying is detected. Nor is a high skill specific to recurrence: on standard teachers, three blocks that are "
    "applied once each do about as well (row *default, untied* of the ablation).",
    "stochastic-depth": "How much of the effect is dropping layers, and how much is learning less. Only the "
    "contrast with the early stop can tell. The early stop is an unfinished training, chosen by accuracy on the "
    "held-out images. The paper's ViT is larger, was trained for longer and is more accurate. Only one rate has "
    "several seeds; the other rates show the shape of the curve.",
    "emergence": "Whether the rise in the first steps of training, which was seen for one seed, is general: the "
    "verdict compares both ends alone. A part of the change is that of the random network. The paper's trained "
    "ViT has a stochastic depth rate of .3; these teachers have none.",
    "overfitting": "Whether it is overfitting or having less data: no condition has as little data without "
    "overfitting. Phases of these teachers are found on the images that they were trained on. One size of subset, "
    "with as many steps as the other teachers.",
    "partitions": "Students are trained for a few hundred steps; longer training may make up for a worse "
    "partition. The even split does as well as the cut by similarity.",
    "k-curve": "With three teachers, the interval can confirm the claim only if the elbow is equally far in all "
    "of them. The elbow depends on the largest k, on the ks that were tried and on the length of training.",
    "ablation": "The paper trains a thousand times as many steps, and Table 2 has no intervals.",
    "gallery": "Whether these teachers have phases. Similarity cannot tell, since the teacher with three phases "
    "by construction is a drift as well. One seed. The paper's models are larger, and most are trained without "
    "labels.",
}
