#!/usr/bin/env python3
"""Trains the 64-256-256-10 classifier of this folder and writes its two files.

    python3 -m venv venv && venv/bin/pip install numpy scikit-learn
    venv/bin/python train.py            # writes model.safetensors and heldout.safetensors here

scikit-learn is used for the data alone; the training is plain numpy with fixed seeds. The split and
heldout.safetensors are the same bytes everywhere; the weights are the same bytes wherever numpy's
matrix product rounds the same way, which differs between BLAS builds and processors.
"""

import argparse
import json
import pathlib
import struct

import numpy as np
from sklearn.datasets import load_digits

SEED = 20260
HELD_OUT_PER_DIGIT = 50
WIDTHS = (64, 256, 256, 10)
EPOCHS = 120
BATCH = 32
PEAK_RATE = 2e-3
WEIGHT_DECAY = 0.02
KEEP_INPUT = 0.9
KEEP_HIDDEN = 0.5
INPUT_SCALE = 1.0 / 16.0  # the images hold counts 0..16; a power of two, so exact in f16 too


def split(images, labels):
    """Holds out the same number of images of every digit, chosen by the seed."""
    rng = np.random.default_rng(SEED)
    held_out = np.zeros(len(labels), dtype=bool)
    for digit in range(10):
        rows = np.flatnonzero(labels == digit)
        held_out[rng.permutation(rows)[:HELD_OUT_PER_DIGIT]] = True
    return (images[~held_out], labels[~held_out]), (images[held_out], labels[held_out])


def initial_layers(rng):
    """He initialisation; a weight is [outputs, inputs], as in PyTorch's Linear."""
    return [
        {
            "weight": rng.standard_normal((n_out, n_in)) * np.sqrt(2.0 / n_in),
            "bias": np.zeros(n_out),
        }
        for n_in, n_out in zip(WIDTHS[:-1], WIDTHS[1:])
    ]


def logits_of(layers, x):
    for layer in layers[:-1]:
        x = np.maximum(x @ layer["weight"].T + layer["bias"], 0.0)
    return x @ layers[-1]["weight"].T + layers[-1]["bias"]


def gradients(layers, x, labels, rng):
    """Mean cross-entropy with dropout; returns the gradients, first layer first."""
    inputs = [x * (rng.random(x.shape) < KEEP_INPUT) / KEEP_INPUT]
    for layer in layers[:-1]:
        h = np.maximum(inputs[-1] @ layer["weight"].T + layer["bias"], 0.0)
        inputs.append(h * (rng.random(h.shape) < KEEP_HIDDEN) / KEEP_HIDDEN)
    z = inputs[-1] @ layers[-1]["weight"].T + layers[-1]["bias"]
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    p[np.arange(len(labels)), labels] -= 1.0
    delta = p / len(labels)
    result = []
    for i in reversed(range(len(layers))):
        result.append({"weight": delta.T @ inputs[i], "bias": delta.sum(axis=0)})
        if i > 0:
            delta = (delta @ layers[i]["weight"]) * (inputs[i] > 0) / KEEP_HIDDEN
    return result[::-1]


def train(x, labels):
    """AdamW with a one-cycle cosine rate, in double precision."""
    rng = np.random.default_rng(SEED + 1)
    layers = initial_layers(rng)
    mean = [{k: np.zeros_like(v) for k, v in layer.items()} for layer in layers]
    square = [{k: np.zeros_like(v) for k, v in layer.items()} for layer in layers]
    steps = EPOCHS * ((len(x) + BATCH - 1) // BATCH)
    step = 0
    for _ in range(EPOCHS):
        order = rng.permutation(len(x))
        for start in range(0, len(x), BATCH):
            rows = order[start : start + BATCH]
            step += 1
            rate = PEAK_RATE * 0.5 * (1.0 + np.cos(np.pi * step / steps))
            for layer, m, s, g in zip(
                layers, mean, square, gradients(layers, x[rows], labels[rows], rng)
            ):
                for k in layer:
                    m[k] = 0.9 * m[k] + 0.1 * g[k]
                    s[k] = 0.999 * s[k] + 0.001 * g[k] * g[k]
                    update = (m[k] / (1 - 0.9**step)) / (np.sqrt(s[k] / (1 - 0.999**step)) + 1e-8)
                    decay = WEIGHT_DECAY * layer[k] if k == "weight" else 0.0
                    layer[k] -= rate * (update + decay)
    return layers


def accuracy(layers, x, labels):
    return float((logits_of(layers, x).argmax(axis=1) == labels).mean())


def save(path, tensors, metadata):
    """Writes a safetensors file. The safetensors package orders metadata anew in every run, so the
    same weights would give other bytes each time; here the order is the one of the arguments."""
    names = {np.dtype(np.float32): "F32", np.dtype(np.int32): "I32", np.dtype(np.uint8): "U8"}
    header, data = {"__metadata__": metadata}, b""
    for name, array in tensors.items():
        raw = np.ascontiguousarray(array).tobytes()
        header[name] = {
            "dtype": names[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the data starts at a multiple of eight
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent)
    out = parser.parse_args().out

    digits = load_digits()
    images = digits.data.astype(np.uint8)
    labels = digits.target.astype(np.int32)
    (train_images, train_labels), (test_images, test_labels) = split(images, labels)

    layers = train(train_images * INPUT_SCALE, train_labels)
    tensors = {}
    for i, layer in enumerate(layers):
        for k, v in layer.items():
            tensors[f"layers.{i}.{k}"] = v.astype(np.float32)
            layer[k] = tensors[f"layers.{i}.{k}"].astype(np.float64)
    train_accuracy = accuracy(layers, train_images * INPUT_SCALE, train_labels)
    test_accuracy = accuracy(layers, test_images * INPUT_SCALE, test_labels)
    print(f"training accuracy {train_accuracy:.4f} of {len(train_labels)}")
    print(f"held-out accuracy {test_accuracy:.4f} of {len(test_labels)}")

    provenance = {
        "dataset": "Optical Recognition of Handwritten Digits, E. Alpaydin and C. Kaynak, "
        "UCI 1998, doi:10.24432/C50P49, as shipped by scikit-learn (load_digits, 1797 images)",
        "license": "CC-BY-4.0 (data set)",
        "script": "examples/digits/train.py",
    }
    save(
        out / "model.safetensors",
        tensors,
        {
            "architecture": "mlp",
            "activation": "relu",
            "input_scale": repr(INPUT_SCALE),
            "heldout_accuracy": f"{test_accuracy:.4f}",
            **provenance,
        },
    )
    save(
        out / "heldout.safetensors",
        {"labels": test_labels, "images": test_images},
        {"split": f"seed {SEED}, {HELD_OUT_PER_DIGIT} of each digit", **provenance},
    )


if __name__ == "__main__":
    main()
