# A text cut by a WordPiece tokenizer of the real libraries, what their collator hides of it by given draws, and a small BERT.
import json, os, sys

sys.path.append(os.environ["HPCTRAIN_REAL_LIBRARIES"])
import numpy as np
import torch

torch.version.cuda = None  # torchaudio, which transformers looks for, refuses to stand beside another CUDA's PyTorch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import BertConfig, BertForMaskedLM, DataCollatorForLanguageModeling, PreTrainedTokenizerFast

asked = json.load(sys.stdin)
folder = asked["folder"]
words = "the quick brown foxes jumped over lazily sleeping dogs while seven wizards brewed poisonous mixtures".split()
random = np.random.default_rng(0)
text = [" ".join(random.choice(words, 30)) for _ in range(200)]
special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
tokenizer.normalizer = normalizers.BertNormalizer()
tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
tokenizer.train_from_iterator(text, trainers.WordPieceTrainer(vocab_size=60, special_tokens=special, show_progress=False))
tokenizer.post_processor = processors.TemplateProcessing(
    single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
tokenizer.save(f"{folder}/tokenizer.json")
tokens = [tokenizer.encode(line) for line in text]
np.concatenate([one.ids for one in tokens[:180]]).astype("u2").tofile(f"{folder}/train.bin")
np.concatenate([one.ids for one in tokens[180:]]).astype("u2").tofile(f"{folder}/val.bin")

# The draws of a place are those of the test: they stand in for torch's, in the order in which the collator asks.
length = asked["length"]
draws = torch.tensor(asked["draws"], dtype=torch.float64).reshape(-1, length, 4)
samples = [one for one in tokens if len(one.ids) >= length][: len(draws)]
fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **{f"{name[1:-1].lower()}_token": name for name in special})
turn = 0


def bernoulli(chances, generator=None):
    global turn
    turn += 1
    return (draws[:, :, turn - 1] < chances).to(chances.dtype)


torch.bernoulli = bernoulli
torch.randint = lambda high, size, **_: torch.floor(draws[:, :, 3] * high).long()
answers = {"size": len(fast), "tokens": [one.ids[:length] for one in samples], "cases": {}}
for name, options in asked["cases"].items():
    turn = 0
    collate = DataCollatorForLanguageModeling(fast, **options)
    given = [{"input_ids": one.ids[:length], **({"offset_mapping": one.offsets[:length]} if options.get("whole_word_mask") else {})}
             for one in samples]
    if options.get("whole_word_mask"):
        offsets = torch.tensor([one["offset_mapping"] for one in given])
        ids = torch.tensor([one["input_ids"] for one in given])
        hidden = [fast.get_special_tokens_mask(row, already_has_special_tokens=True) for row in ids.tolist()]
        inputs, labels = collate.torch_mask_tokens(ids, hidden, offsets)
    else:
        batch = collate(given)
        inputs, labels = batch["input_ids"], batch["labels"]
    answers["cases"][name] = {"inputs": inputs.tolist(), "labels": labels.tolist()}

if asked.get("model"):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = BertConfig(vocab_size=len(fast), hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64,
                        max_position_embeddings=32, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)

    class Logits(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bert = BertForMaskedLM(config)

        def forward(self, input_ids, attention_mask, token_type_ids):
            return self.bert(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids).logits

    ids, model = torch.tensor(answers["tokens"][:4]), Logits()
    ids[1, 11:] = 0
    batch = torch.export.Dim("batch", min=2)
    program = torch.export.export(model, (ids, ids.clone(), ids.clone()), dynamic_shapes=({0: batch},) * 3)
    torch.export.save(program, f"{folder}/bert.pt2")
    with torch.no_grad():
        answers["model"] = {"ids": ids.tolist(), "logits": model(ids, (ids != 0).long(), torch.zeros_like(ids)).flatten().tolist()}
json.dump(answers, sys.stdout)
