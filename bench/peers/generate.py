"""PyTorch eager's side of the generate benchmark: gpt with a cache of keys and values, written as plainly as nanoGPT.

`generate.py make FILE LAYERS HEADS EMBED VOCABULARY CONTEXT` writes random weights under nanoGPT's names;
`generate.py run FILE HEADS THREADS PROMPT` answers rounds: a number of tokens on a line, generated after the prompt.
"""
import json
import resource
import sys
import time

import torch
import torch.nn.functional as F


def make(path, layers, heads, embed, vocabulary, context):
    torch.manual_seed(0)
    weights = {"transformer.wte.weight": torch.randn(vocabulary, embed) * 0.2,
               "transformer.wpe.weight": torch.randn(context, embed) * 0.2}

    def linear(name, out, into):
        weights[f"{name}.weight"] = torch.randn(out, into) * 0.1
        weights[f"{name}.bias"] = torch.randn(out) * 0.1

    def norm(name):
        weights[f"{name}.weight"] = torch.ones(embed)
        weights[f"{name}.bias"] = torch.zeros(embed)

    for i in range(layers):
        layer = f"transformer.h.{i}"
        norm(f"{layer}.ln_1")
        linear(f"{layer}.attn.c_attn", 3 * embed, embed)
        linear(f"{layer}.attn.c_proj", embed, embed)
        norm(f"{layer}.ln_2")
        linear(f"{layer}.mlp.c_fc", 4 * embed, embed)
        linear(f"{layer}.mlp.c_proj", embed, 4 * embed)
    norm("transformer.ln_f")
    torch.save(weights, path)


class Gpt:
    def __init__(self, path, heads):
        self.w = torch.load(path, weights_only=True)
        self.heads = heads
        self.layers = sum(name.endswith("ln_1.weight") for name in self.w)
        self.embed = self.w["transformer.wte.weight"].shape[1]
        self.context = self.w["transformer.wpe.weight"].shape[0]
        shape = (1, heads, self.context, self.embed // heads)
        self.keys = [torch.empty(shape) for _ in range(self.layers)]
        self.values = [torch.empty(shape) for _ in range(self.layers)]

    def linear(self, name, x):
        return F.linear(x, self.w[f"{name}.weight"], self.w[f"{name}.bias"])

    def norm(self, name, x):
        return F.layer_norm(x, (self.embed,), self.w[f"{name}.weight"], self.w[f"{name}.bias"])

    def attention(self, i, x, at):
        b, t, c = x.shape
        parts = self.linear(f"transformer.h.{i}.attn.c_attn", x).split(c, dim=2)
        q, k, v = (part.view(b, t, self.heads, c // self.heads).transpose(1, 2) for part in parts)
        self.keys[i][:, :, at:at + t] = k
        self.values[i][:, :, at:at + t] = v
        y = F.scaled_dot_product_attention(
            q, self.keys[i][:, :, :at + t], self.values[i][:, :, :at + t], is_causal=t > 1)
        return self.linear(f"transformer.h.{i}.attn.c_proj", y.transpose(1, 2).reshape(b, t, c))

    def logits(self, tokens, at):
        t = tokens.shape[1]
        x = F.embedding(tokens, self.w["transformer.wte.weight"]) + self.w["transformer.wpe.weight"][at:at + t]
        for i in range(self.layers):
            layer = f"transformer.h.{i}"
            x = x + self.attention(i, self.norm(f"{layer}.ln_1", x), at)
            x = x + self.linear(f"{layer}.mlp.c_proj",
                                F.gelu(self.linear(f"{layer}.mlp.c_fc", self.norm(f"{layer}.ln_2", x)), approximate="tanh"))
        return F.linear(self.norm("transformer.ln_f", x[:, -1]), self.w["transformer.wte.weight"])


@torch.inference_mode()
def generated(model, prompt, count):
    tokens, at, sum_of_all = torch.tensor([prompt]), 0, 0
    for step in range(count):
        token = int(model.logits(tokens, at).argmax())
        at += tokens.shape[1]
        tokens = torch.tensor([[token]])
        sum_of_all += (step + 1) * token
    return sum_of_all


if sys.argv[1] == "make":
    make(sys.argv[2], *map(int, sys.argv[3:]))
else:
    path, heads, threads, prompt = sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), json.loads(sys.argv[5])
    torch.set_num_threads(threads)
    model = Gpt(path, heads)
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        began = time.perf_counter()
        loss = generated(model, prompt, int(line))
        seconds = time.perf_counter() - began
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps({"seconds": seconds, "loss": loss, "peak": peak}), flush=True)
