#!/usr/bin/env python3
"""Writes gguf_by_python.h: a GGUF file that the Python package gguf makes.

The file holds numbers that every language can compute, their q8_0 and q4_0 blocks, and values of
several types.

    pip install gguf==0.19.0
    python3 tests/vectors/make_gguf_file.py > tests/vectors/gguf_by_python.h
"""
import os
import tempfile
import textwrap

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import quants

ROWS, COLUMNS = 2, 32


def main():
    numbers = ((np.arange(ROWS * COLUMNS) * 37 % 101 - 50) / 16).astype(np.float32)
    matrix = numbers.reshape(ROWS, COLUMNS)
    path = os.path.join(tempfile.mkdtemp(), "vectors.gguf")
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(3)
    writer.add_token_list(["a", "b\u00e9", "<s>"])
    writer.add_float32("test.float", 0.1)
    writer.add_bool("test.flag", True)
    writer.add_tensor("plain", matrix)
    for kind in (Type.Q8_0, Type.Q4_0):
        writer.add_tensor(kind.name.lower(), quants.quantize(matrix, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with open(path, "rb") as file:
        data = file.read()
    print("/* Made by make_gguf_file.py: element i of `plain` is (i * 37 % 101 - 50) / 16. */")
    print("#ifndef TANDEM_TESTS_GGUF_BY_PYTHON_H\n#define TANDEM_TESTS_GGUF_BY_PYTHON_H\n")
    print(f"enum {{\n    GGUF_VECTOR_ROWS = {ROWS},\n    GGUF_VECTOR_COLUMNS = {COLUMNS}\n}};\n")
    print("/* clang-format off */\nstatic const unsigned char gguf_by_python[] = {")
    print(textwrap.fill(", ".join(map(str, data)) + ",", 100, initial_indent="    ",
                        subsequent_indent="    "))
    print("};\n/* clang-format on */\n\n#endif")


main()
