# Makes tokenizers with the real libraries in the folder of the first argument, and encodes the texts of standard input.
import base64, json, os, sys

sys.path.insert(0, os.environ["HPCTRAIN_REAL_LIBRARIES"])
import tiktoken
import tiktoken_ext.openai_public as public
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

folder, texts = sys.argv[1], json.load(sys.stdin)
CORPUS = texts[: len(texts) // 2] + [
    "the quick brown fox don't jump over the lazy dogs, they've said; 1234 times in 2023.\n\n    return x\n" * 3,
    "Straße, naïve café, Ελληνικά κείμενα, русский текст, 漢字かな交じり文 日本語, 한국어, العربية, हिन्दी 👍🏽👩‍👩‍👧‍👦\r\n" * 3,
]
answers = {}


def trained(pre, size=900, **more):
    tokenizer = Tokenizer(models.BPE(**more.pop("model", {})))
    tokenizer.normalizer = more.pop("normalizer", None)
    tokenizer.pre_tokenizer = pre
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = more.pop("alphabet", pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False, **more))
    return tokenizer


def byte_level(split=None, **how):
    last = pre_tokenizers.ByteLevel(**{"add_prefix_space": False, **how})
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(split), "isolated"), last]) if split else last


# tiktoken: ranks are those of a trained vocabulary, and the patterns are the library's own.
chars = {c: b for b, c in zip(list(range(256)), sorted(pre_tokenizers.ByteLevel.alphabet()))}
seen = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174]
order = seen + [b for b in range(256) if b not in seen]
chars = {chr(b) if b in seen else chr(256 + order.index(b) - len(seen)): b for b in order}


def ranks_of(tokenizer):
    model = json.loads(tokenizer.to_str())["model"]
    ranks = {bytes([b]): b for b in range(256)}
    for left, right in model["merges"]:
        token = bytes(chars[c] for c in left + right)
        if token not in ranks:
            ranks[token] = len(ranks)
    return ranks


LLAMA = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
plain, llama = trained(byte_level()), trained(byte_level(LLAMA, use_regex=False), 1200)
for name, source in [("r50k_base", plain), ("cl100k_base", llama), ("o200k_base", llama)]:
    made = {**{"r50k_base": public.r50k_base, "cl100k_base": public.cl100k_base, "o200k_base": public.o200k_base}}[name]
    ranks = ranks_of(source)
    load = public.load_tiktoken_bpe
    public.load_tiktoken_bpe = lambda *_, **__: ranks
    about = made()
    public.load_tiktoken_bpe = load
    special = about["special_tokens"]
    encoding = tiktoken.Encoding(name, pat_str=about["pat_str"], mergeable_ranks=ranks, special_tokens=special)
    path = f"{name}.tiktoken"
    with open(f"{folder}/{path}", "w") as file:
        file.writelines(f"{base64.b64encode(token).decode()} {rank}\n" for token, rank in ranks.items())
    answers[path] = {
        "plain": [encoding.encode_ordinary(text) for text in texts],
        "special": [encoding.encode(text, allowed_special="all") for text in texts],
    }


def ask(name, tokenizer):
    os.makedirs(f"{folder}/{name}", exist_ok=True)
    tokenizer.save(f"{folder}/{name}/tokenizer.json")
    special = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    tokenizer.encode_special_tokens = True
    answers[f"{name}/tokenizer.json"] = {
        "plain": [tokenizer.encode(text, add_special_tokens=False).ids for text in texts],
        "special": special,
    }


end = AddedToken("<|endoftext|>", special=True)
plain.add_special_tokens([end])
ask("gpt2", plain)
llama.model.ignore_merges = True
llama.add_special_tokens([end, AddedToken("[PAD]", special=True, lstrip=True, rstrip=True)])
ask("llama3", llama)
qwen = trained(byte_level(LLAMA.replace(r"\p{N}{1,3}", r"\p{N}"), use_regex=False), normalizer=normalizers.NFC())
qwen.add_tokens([AddedToken("the", single_word=True), AddedToken("ﬁ", normalized=True), AddedToken("e\u0301", normalized=True)])
ask("qwen", qwen)
folded = trained(
    pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level(add_prefix_space=True)]),
    normalizer=normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()]),
)
ask("folded", folded)
# Bytes that training did not see are left out, or are the unknown token.
sparse = trained(byte_level(r"[\s\d]+|\w+", use_regex=False), 300, alphabet=[])
ask("sparse", sparse)
unknown = trained(byte_level(), 300, alphabet=[], model={"unk_token": "[UNK]", "fuse_unk": True}, special_tokens=["[UNK]"])
ask("unknown", unknown)
print(json.dumps({"answers": answers}))
