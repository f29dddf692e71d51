"""PyTorch's compiled FlexAttention, and cuDNN, on this machine, with rows named as flextile-bench's and flextile-versus', to be compared within one run.

usage: torch_flex.py [--device cpu|cuda] [--json FILE] [--filter TEXT]     (CPU: as many threads as flextile uses, FLEXTILE_THREADS)
Needs PyTorch 2.7 or later (a CPU build will do for --device cpu) and a C++ compiler for torch.compile on the CPU.
"""
import argparse, json, os, statistics, time
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=["cpu", "cuda"])
parser.add_argument("--json", default="")
parser.add_argument("--filter", default="")
options = parser.parse_args()
device = options.device
torch.manual_seed(0)
torch._dynamo.config.recompile_limit = 1000
if device == "cpu" and os.environ.get("FLEXTILE_THREADS"):
    torch.set_num_threads(int(os.environ["FLEXTILE_THREADS"]))
rows = []


def median_ms(work):
    for _ in range(3):
        work()
    if device == "cuda":                            # as flextile-bench: calls queued one behind the other for some 300 ms
        torch.cuda.synchronize()
        times = []
        began = time.perf_counter(); work(); torch.cuda.synchronize()
        once = 1e3 * (time.perf_counter() - began)
        for _ in range(min(200, max(3, int(300 / once)))):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record(); work(); end.record()
            times.append((start, end))
        torch.cuda.synchronize()
        return statistics.median(start.elapsed_time(end) for start, end in times)
    times = []
    began = time.perf_counter()
    while len(times) < 3 or (time.perf_counter() - began < 4 and len(times) < 30):
        start = time.perf_counter(); work(); times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


def burst_ms(work):                                 # as flextile-versus: twelve calls after an idle pause
    torch.cuda.synchronize()
    time.sleep(0.1)
    work()
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(13)]
    marks[0].record()
    for mark in marks[1:]:
        work(); mark.record()
    torch.cuda.synchronize()
    return statistics.median(a.elapsed_time(b) for a, b in zip(marks, marks[1:]))


def sustained_ms(work):                             # as flextile-versus: calls one behind the other for some 250 ms, all of the time
    once = burst_ms(work)
    count = max(10, int(250 / once))
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(count):
        work()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / count


def row(name, work, operations, burst=False):
    if options.filter not in name:
        return
    try:
        with torch.no_grad():
            work()
            ms = sustained_ms(work) if burst else median_ms(work)
            quick = burst_ms(work) if burst else None
        result = dict(name=name, ms=round(ms, 4), tflops=round(operations / ms / 1e9, 3))
        if burst:
            result["burst_tflops"] = round(operations / quick / 1e9, 3)
    except Exception as error:                      # one row that fails leaves the others
        result = dict(name=name, failed=repr(error)[:200])
    rows.append(result)
    print(result, flush=True)


def tensors(batch, heads, length, dim, kind):
    return [torch.randn(batch, heads, length, dim, device=device, dtype=kind) for _ in range(3)]


def causal(b, h, q, kv):
    return q >= kv


def uniform(counter, seed):
    """flextile's random number of one counter (runtime/src/philox.hpp)."""
    words, low, high = [counter & 0xFFFFFFFF, counter >> 32, 0, 0], seed & 0xFFFFFFFF, seed >> 32
    for _ in range(10):
        a, b = 0xD2511F53 * words[0], 0xCD9E8D57 * words[2]
        words = [b >> 32 ^ words[1] ^ low, b & 0xFFFFFFFF, a >> 32 ^ words[3] ^ high, a & 0xFFFFFFFF]
        low, high = (low + 0x9E3779B9) & 0xFFFFFFFF, (high + 0xBB67AE85) & 0xFFFFFFFF
    return (words[0] >> 8) * 2.0**-24


def documents(length, mean=600, seed=1):
    """The same documents as flextile's document_ids."""
    starts = [0] + [int(uniform(i, seed) < 1 / mean) for i in range(1, length)]
    return torch.cumsum(torch.tensor(starts, dtype=torch.int32), 0).int().to(device)


def tiles(mask):
    count = mask.kv_num_blocks.sum().item()
    return count + (mask.full_kv_num_blocks.sum().item() if mask.full_kv_num_blocks is not None else 0)


def attention(name, q, k, v, operations, mask=None, score=None, grouped=False):
    compiled = torch.compile(flex_attention, dynamic=False)
    row(name + "/flex/fwd", lambda: compiled(q, k, v, score_mod=score, block_mask=mask, enable_gqa=grouped), operations)


def cudnn():
    for dim in (64, 128, 256):
        for length in (1024, 2048, 4096, 8192, 16384):
            batch, heads = 16384 // length, 2048 // dim
            q, k, v = tensors(batch, heads, length, dim, torch.bfloat16)
            for masked in (False, True):
                def work():
                    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                        torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=masked)
                row(f"D{dim}/T{length}/{'causal' if masked else 'full'}/cudnn/fwd", work, 4 * batch * heads * length**2 * dim / (2 if masked else 1), burst=True)


def on_cpu():
    # Lengths and types of the project's two CPU goals: causal 4K D64, documents 16K D128, both f32.
    q, k, v = tensors(1, 8, 4096, 64, torch.float32)
    mask = create_block_mask(causal, None, None, 4096, 4096, device=device)
    attention("cpu/4K/H8/D64/causal", q, k, v, 4 * 8 * tiles(mask) * 128 * 128 * 64, mask)
    docs = documents(16384)
    mask = create_block_mask(lambda b, h, q, kv: (q >= kv) & (docs[q] == docs[kv]), None, None, 16384, 16384, device=device)
    q, k, v = tensors(1, 6, 16384, 128, torch.float32)
    attention("cpu/16K/H6/D128/doc", q, k, v, 4 * 6 * tiles(mask) * 128 * 128 * 128, mask)


def on_cuda():
    half = torch.bfloat16
    a, b = torch.randn(8192, 8192, device=device, dtype=half), torch.randn(8192, 8192, device=device, dtype=half)
    row("gemm8192/cublas", lambda: a @ b, 2 * 8192**3)
    cudnn()
    for dim in (64, 128, 256):
        q, k, v = tensors(2, 2048 // dim, 8192, dim, half)
        operations = 4 * 2 * (2048 // dim) * 8192**2 * dim
        attention(f"D{dim}/T8192/full", q, k, v, operations)
        attention(f"D{dim}/T8192/causal", q, k, v, operations / 2, create_block_mask(causal, None, None, 8192, 8192))
    length, heads, dim = 65536, 6, 128
    docs = documents(length)
    window = torch.tensor(1024, device=device)
    masks = {
        "causal": causal,
        "window1024": lambda b, h, q, kv: (q >= kv) & (q - kv < 1024),
        "chunk1024": lambda b, h, q, kv: (q >= kv) & (q // 1024 == kv // 1024),
        "speedrun": lambda b, h, q, kv: (q >= kv) & (docs[q] == docs[kv]) & (q - kv < window),
        "doc": lambda b, h, q, kv: (q >= kv) & (docs[q] == docs[kv]),
    }
    q, k, v = tensors(1, heads, length, dim, half)
    build = torch.compile(create_block_mask, dynamic=False)
    for name, mod in masks.items():
        if options.filter in f"64K/H6/D128/{name}/flex/fwd":
            mask = build(mod, None, None, length, length)
            attention(f"64K/H6/D128/{name}", q, k, v, 4 * heads * tiles(mask) * 128 * 128 * dim, mask)
    batch, heads, length = 4, 16, 8192
    q, k, v = tensors(batch, heads, length, dim, half)
    slopes = torch.exp2(-8.0 * (torch.arange(heads, device=device) + 1) / heads)
    causal_mask = create_block_mask(causal, None, None, length, length)
    bias = torch.randn(heads, 2 * length, device=device, dtype=half)
    scores = {
        "alibi+causal": lambda s, b, h, q, kv: s + slopes[h] * (kv - q),
        "softcap+causal": lambda s, b, h, q, kv: 20.0 * torch.tanh(s / 20.0),
        "rel+causal": lambda s, b, h, q, kv: s + (q - kv),
        "bias_gather+causal": lambda s, b, h, q, kv: s + bias[h, q - kv + length],
    }
    scores["alibi_full"], scores["softcap_full"] = scores["alibi+causal"], scores["softcap+causal"]
    for name, score in scores.items():
        mask = causal_mask if name.endswith("causal") else None
        visible = tiles(mask) if mask is not None else (length // 128) ** 2
        attention(f"B4/H16/8K/D128/{name}", q, k, v, 4 * batch * heads * visible * 128 * 128 * dim, mask, score)
    prefix = create_block_mask(lambda b, h, q, kv: (q >= kv) | (kv < 2048), None, None, length, length)
    attention("B4/H16/8K/D128/prefix2048", q, k, v, 4 * batch * heads * tiles(prefix) * 128 * 128 * dim, prefix)
    docs = documents(length, 1024)
    mask = create_block_mask(lambda b, h, q, kv: (docs[q] == docs[kv]) & (q >= kv), None, None, length, length)
    attention("B4/H16/8K/D128/doc+causal", q, k, v, 4 * batch * heads * tiles(mask) * 128 * 128 * dim, mask)
    q, k, v = torch.randn(4, 32, length, dim, device=device, dtype=half), *tensors(4, 8, length, dim, half)[:2]
    attention("B4/H32:8/8K/D128/gqa+causal", q, k, v, 2 * 4 * 32 * length**2 * dim, causal_mask, grouped=True)


on_cuda() if device == "cuda" else on_cpu()
if options.json:
    with open(options.json, "w") as file:
        json.dump(dict(device=torch.cuda.get_device_name() if device == "cuda" else f"cpu, {torch.get_num_threads()} threads", torch=torch.__version__,
                       rows=rows), file, indent=1)
