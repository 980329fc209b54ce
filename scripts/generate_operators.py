"""Writes ravnest/graph/operators.inc: the operators a Program may name.

The list is drawn from torch's own schemas: ATen operators over dense tensors and
plain numbers, and nothing that reads or writes anything but its arguments. Run it
with the torch version that the build uses:

    .venv/bin/python scripts/generate_operators.py > ravnest/graph/operators.inc
"""

import re

import torch

# Types that a pure tensor operator may take or return.
PLAIN_TYPES = {
    "Tensor",
    "number",
    "int",
    "float",
    "bool",
    "str",
    "Device",
    "complex",
    "NoneType",
}

# Names that are refused whatever their types say: they touch files, storages,
# devices' state, sparse and quantised layouts, or the profiler.
REFUSED = re.compile(
    r"from_file|save|storage|pin|record|stream|_cuda|_mps|_xpu|_mkldnn|mkldnn|cudnn|miopen|"
    r"sparse|quantiz|_quant|dequant|fbgemm|xnn|vulkan|_nested|nested|_foreach|_amp|_fused|named|names|rename|"
    r"refine|align|set_data|set_|resize|_test|_debug|_print|print|warn|backward|_fw_|_jvp|_thnn|"
    r"_cslt|_wrapped|_spdiags|_validate|_use_|_has_|_coalesce|coalesce|to_dense|to_padded|"
    r"_linalg_check|_neg_view|_conj_copy|sym_constrain|_functional|_propagate|_make_dep|"
    r"_batch_norm_impl|_dyn_quant|_chunk_cat|_weight_int|_mixed|_scaled_mm|_scaled_grouped|_grouped_mm|"
    r"_assert_async|is_pinned|retain_grad|requires_grad|_version|_backward|_local_scalar|_shape_as|"
    r"fft_.*plan|_sobol|_cummax|_cummin|_lazy|_safe_softmax_|is_set_to|output_nr|_triton|_cudnn|"
    r"data$|^equal$|is_nonzero|^item$|_compute_linear|get_device|_dirichlet_grad"
)

# Internal operators (a leading underscore) that exported graphs do contain.
WANTED_INTERNAL = {
    "__and__",
    "__lshift__",
    "__or__",
    "__rshift__",
    "__xor__",
    "_adaptive_avg_pool2d",
    "_adaptive_avg_pool3d",
    "_assert_scalar",
    "_assert_tensor_metadata",
    "_cdist_forward",
    "_convolution",
    "_embedding_bag",
    "_log_softmax",
    "_native_batch_norm_legit",
    "_native_batch_norm_legit_functional",
    "_native_batch_norm_legit_no_training",
    "_pdist_forward",
    "_scaled_dot_product_attention_math",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_softmax",
    "_stack",
    "_to_copy",
    "_trilinear",
    "_unique2",
    "_unsafe_index",
    "_unsafe_view",
    "_upsample_bicubic2d_aa",
    "_upsample_bilinear2d_aa",
    "_weight_norm",
    "_weight_norm_interface",
}

# Operators whose results may share memory with their first argument although the
# schema does not say so.
MAY_ALIAS = {
    "reshape", "reshape_as", "contiguous", "flatten", "to", "type_as", "ravel", "dropout",
    "feature_dropout", "alpha_dropout", "feature_alpha_dropout", "expand_as", "view_as",
    "unflatten", "narrow", "chunk", "tensor_split", "hsplit", "vsplit", "dsplit", "movedim",
    "moveaxis", "swapaxes", "swapdims", "adjoint", "matrix_H", "mH", "mT", "numpy_T", "T",
    "squeeze", "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_to", "diagonal",
    "linalg_diagonal", "real", "imag", "conj", "resolve_conj", "resolve_neg",
    "positive", "unsafe_split", "unsafe_chunk", "unsafe_split_with_sizes",
    "cpu", "float", "double", "half", "int", "long", "short", "byte", "char", "bool",
    "meshgrid", "broadcast_tensors",
}  # fmt: skip

# Operators that change an argument although the schema does not say so: running
# statistics.
MUTATE_SILENTLY = {"batch_norm", "instance_norm", "native_batch_norm", "rrelu_with_noise"}

RANDOM = re.compile(
    r"^(alpha_dropout|bernoulli|binomial|cauchy|dropout|exponential|feature_alpha_dropout|"
    r"feature_dropout|geometric|log_normal|multinomial|native_dropout|normal|poisson|rand.*|"
    r"random|rrelu.*|uniform|gru|lstm|rnn_tanh|rnn_relu|scaled_dot_product_attention|"
    r"fractional_max_pool.d|_scaled_dot_product_attention_math)_?$"
)


def is_plain(kind):
    """Whether values of this JIT type are tensors, plain numbers or lists of them."""
    while kind.kind() in ("ListType", "OptionalType"):
        kind = kind.getElementType()
    return str(kind) in PLAIN_TYPES


def is_allowed(schema):
    name = schema.name.removeprefix("aten::")
    if (
        schema.overload_name == "out"
        or schema.overload_name.endswith("_out")
        or "out" in [a.name for a in schema.arguments]
    ):
        return False
    if "generator" in schema.overload_name or "Dimname" in str(schema):
        return False
    if name.startswith("_") and name not in WANTED_INTERNAL:
        return False
    if name not in WANTED_INTERNAL and REFUSED.search(name):
        return False
    if name not in MUTATE_SILENTLY and name != "_native_batch_norm_legit":
        written = [
            i for i, a in enumerate(schema.arguments) if a.alias_info and a.alias_info.is_write
        ]
        if written not in ([], [0]):
            return False  # results written into given tensors
    # A generator, layout or stream is fine as long as it is left at its default.
    return all(is_plain(r.type) for r in schema.returns) and all(
        is_plain(a.type) or a.has_default_value() for a in schema.arguments
    )


def flags_of(schema):
    name = schema.name.removeprefix("aten::")
    flags = []
    written = [a for a in schema.arguments if a.alias_info and a.alias_info.is_write]
    viewed = [a for a in schema.arguments if a.alias_info and not a.alias_info.is_write]
    if viewed or name in MAY_ALIAS:
        flags.append("kAliases")
    if written:
        flags.append("kMutates")
    if name in MUTATE_SILENTLY or len(written) > 1:
        flags = [f for f in flags if f != "kMutates"] + ["kMutatesOther"]
    if RANDOM.match(name):
        flags.append("kRandom")
    return flags


def main():
    rows = {}
    for schema in torch._C._jit_get_all_schemas():
        if not schema.name.startswith("aten::") or not is_allowed(schema):
            continue
        # Only what the dispatcher knows; the JIT has operators of its own.
        try:
            torch._C._dispatch_find_schema_or_throw(schema.name, schema.overload_name)
        except RuntimeError:
            continue
        target = f"{schema.name.replace('::', '.')}.{schema.overload_name or 'default'}"
        rows[target] = " | ".join(flags_of(schema)) or "0"
    print(f"// Written by scripts/generate_operators.py from torch {torch.__version__}; sorted.")
    for target in sorted(rows):
        print(f'{{"{target}", {rows[target]}}},')


if __name__ == "__main__":
    main()
