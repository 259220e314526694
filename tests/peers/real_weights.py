"""Weights of torchvision's, timm's and Hugging Face's models with random numbers, what these models answer, and what peft's
adapters of them learn. Argument: a folder. Prints JSON."""
import json
import os
import sys

import torch

sys.path.append(os.environ["HPCTRAIN_REAL_LIBRARIES"])
torch.version.cuda = None  # torchaudio refuses to be imported beside another CUDA's PyTorch; here all is on the CPU
os.environ["HF_HUB_OFFLINE"] = "1"
import peft  # noqa: E402
import timm  # noqa: E402
import torchvision  # noqa: E402
import transformers  # noqa: E402
from safetensors.torch import save_file  # noqa: E402
from torch import nn  # noqa: E402

transformers.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
torch.set_num_threads(1)
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
folder = sys.argv[1]

VIT = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128, "image_size": 32,
       "patch_size": 8, "num_labels": 5}
GPT = {"n_embd": 32, "n_layer": 2, "n_head": 2, "vocab_size": 50, "n_positions": 16, "bos_token_id": 0, "eos_token_id": 0,
       "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0}


def drawn(model, seed=1):
    torch.manual_seed(seed)
    for name, t in list(model.named_parameters()) + list(model.named_buffers()):
        if t.is_floating_point():
            with torch.no_grad():
                t.copy_(torch.rand(t.shape) + 0.5 if "var" in name else 0.2 * torch.randn(t.shape) + ("norm" in name))
    return model


def torchvision_vit():
    return torchvision.models.VisionTransformer(image_size=32, patch_size=8, num_layers=2, num_heads=2, hidden_dim=32,
                                                mlp_dim=128, num_classes=5)


class Convnet(nn.Module):
    """hpctrain's simple-convnet."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 32, 3), nn.Conv2d(32, 64, 3)
        self.fc1, self.fc2 = nn.Linear(64 * 14 * 14, 128), nn.Linear(128, 5)

    def forward(self, x):
        x = torch.relu(self.conv2(torch.relu(self.conv1(x))))
        x = torch.flatten(nn.functional.max_pool2d(x, 2), 1)
        return self.fc2(torch.relu(self.fc1(x)))


images, tokens = torch.randn(4, 3, 32, 32, generator=torch.manual_seed(3)), torch.randint(0, 50, (3, 16))
result = {"images": images.flatten().tolist(), "tokens": tokens.flatten().tolist(), "files": {}, "adapters": {}}


def logits(model, x):
    out = model(x)
    return out.logits if hasattr(out, "logits") else out


def told(name, model, x):
    with torch.no_grad():
        result["files"][name] = logits(model.eval(), x).flatten().tolist()


def written(name, model, x):
    path, state = f"{folder}/{name}", {k: v.contiguous() for k, v in model.state_dict().items()}
    if name.endswith(".pt"):
        torch.save(model.state_dict(), path)
    else:
        save_file({k: v.clone() for k, v in state.items()}, path, metadata={"format": "pt"})
    told(name, model, x)


written("torchvision-resnet18.pt", drawn(torchvision.models.resnet18(num_classes=5)), images)
written("timm-resnet18.safetensors", drawn(timm.create_model("resnet18", num_classes=5)), images)
for name, sizes, kind in (("resnet18", (64, 128, 256, 512), "basic"), ("resnet50", (256, 512, 1024, 2048), "bottleneck")):
    depths = [2, 2, 2, 2] if kind == "basic" else [3, 4, 6, 3]
    resnet = drawn(transformers.ResNetForImageClassification(transformers.ResNetConfig(
        hidden_sizes=list(sizes), depths=depths, layer_type=kind, num_labels=5)))
    written(f"huggingface-{name}.pt", resnet, images)
    resnet.save_pretrained(f"{folder}/{name}")
    os.rename(f"{folder}/{name}/model.safetensors", f"{folder}/huggingface-{name}.safetensors")
    told(f"huggingface-{name}.safetensors", resnet, images)
def timm_vit(size=32):
    return timm.models.VisionTransformer(img_size=size, patch_size=8, embed_dim=32, depth=2, num_heads=2, num_classes=5)


result["resized"] = []
for size in (32, 64), (64, 64), (24, 24), (56, 16), (104, 40):
    fitted, pixels = drawn(timm_vit()), torch.randn(2, 3, *size, generator=torch.manual_seed(7))
    fitted.set_input_size(img_size=size)
    with torch.no_grad():
        result["resized"].append({"size": size, "images": pixels.flatten().tolist(), "logits": fitted.eval()(pixels).flatten().tolist(),
                                  "positions": fitted.pos_embed.flatten().tolist()})
written("torchvision-vit.pt", drawn(torchvision_vit()), images)
written("timm-vit.safetensors", drawn(timm_vit()), images)
vit = drawn(transformers.ViTForImageClassification(transformers.ViTConfig(**VIT)))
written("huggingface-vit.pt", vit, images)
vit.save_pretrained(f"{folder}/vit")
os.rename(f"{folder}/vit/model.safetensors", f"{folder}/huggingface-vit.safetensors")
told("huggingface-vit.safetensors", vit, images)
STAGES = (4, 8, 16, 32)
written("torchvision-convnext.pt", drawn(torchvision.models.ConvNeXt(
    [torchvision.models.convnext.CNBlockConfig(n, 2 * n if n < 32 else None, count) for n, count in zip(STAGES, (3, 3, 9, 3))],
    num_classes=5)), images)
written("timm-convnext.safetensors", drawn(timm.create_model("convnext_tiny", dims=STAGES, num_classes=5)), images)
convnext = drawn(transformers.ConvNextForImageClassification(transformers.ConvNextConfig(
    hidden_sizes=list(STAGES), depths=[3, 3, 9, 3], num_labels=5)))
written("huggingface-convnext.pt", convnext, images)
convnext.save_pretrained(f"{folder}/convnext")
os.rename(f"{folder}/convnext/model.safetensors", f"{folder}/huggingface-convnext.safetensors")
told("huggingface-convnext.safetensors", convnext, images)
gpt = drawn(transformers.GPT2LMHeadModel(transformers.GPT2Config(**GPT)))
written("huggingface-gpt2.pt", gpt, tokens)
torch.save(gpt.transformer.state_dict(), f"{folder}/huggingface-gpt2-base.pt")
told("huggingface-gpt2-base.pt", gpt, tokens)
gpt.save_pretrained(f"{folder}/gpt")
os.rename(f"{folder}/gpt/model.safetensors", f"{folder}/huggingface-gpt2.safetensors")
told("huggingface-gpt2.safetensors", gpt, tokens)


def adapted(name, model, x, targets):
    """peft's adapters with random numbers: their gradients for a loss, and the answers of the merged model."""
    base = {k: v.clone() for k, v in model.state_dict().items()}
    if name != "gpt":
        torch.export.save(torch.export.export(model.eval(), (x,)), f"{folder}/{name}.pt2")
    config = peft.LoraConfig(r=3, lora_alpha=6, target_modules=targets, lora_dropout=0.0, init_lora_weights=False)
    tuned = peft.get_peft_model(model, config)
    torch.manual_seed(5)
    lora = {k: p for k, p in tuned.named_parameters() if p.requires_grad}
    for k, p in lora.items():
        with torch.no_grad():
            # peft 0.21 adds what the adapter of an attention's out_proj comes to twice: here it comes to nothing.
            p.copy_(0.1 * torch.randn(p.shape) * ("base_layer.out_proj.lora_B" not in k))
    tuned.eval()
    out = logits(tuned, x)
    weights = torch.randn(out.shape)
    (out * weights).sum().backward()
    plain = {k.replace("base_model.model.", "").replace("base_layer.", "").replace(".default", ""): p for k, p in lora.items()}
    torch.save({**base, **{k: p.detach().clone() for k, p in plain.items()}}, f"{folder}/{name}.pt")
    gradients = {k: p.grad.flatten().tolist() for k, p in plain.items()}
    with torch.no_grad():
        merged = logits(tuned.merge_and_unload().eval(), x).flatten().tolist()
    result["adapters"][name] = {"weights": weights.flatten().tolist(), "gradients": gradients, "merged": merged,
                                "logits": out.detach().flatten().tolist()}


adapted("convnet", drawn(Convnet()), images, ["conv1", "conv2", "fc1"])
adapted("resnet18", drawn(torchvision.models.resnet18(num_classes=5)), images, ["layer1.0.conv1", "layer2.0.downsample.0"])
adapted("gpt", drawn(transformers.GPT2LMHeadModel(transformers.GPT2Config(**GPT))), tokens, ["c_attn", "c_proj", "c_fc"])
adapted("vit", drawn(torchvision_vit()), images, ["self_attention", "mlp.0"])
json.dump(result, answers)
answers.close()
