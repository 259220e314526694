"""What Hugging Face's trainer learns from the texts of standard input: python learned.py SIZE"""

import json
import os
import sys

sys.path.insert(0, os.environ["HPCTRAIN_REAL_LIBRARIES"])
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

tokenizer = Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
alphabet = pre_tokenizers.ByteLevel.alphabet()
trainer = trainers.BpeTrainer(
    vocab_size=int(sys.argv[1]), initial_alphabet=alphabet, show_progress=False, special_tokens=["<|endoftext|>"]
)
tokenizer.train_from_iterator(json.load(sys.stdin), trainer)
print(json.dumps(json.loads(tokenizer.to_str())["model"]))
