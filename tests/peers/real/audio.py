"""torchaudio's models of waves and spectra."""
import torch
from case import Case, numbers, whole
from torchaudio import models as a

LIBRARY = "torchaudio"


class Lengths(torch.nn.Module):
    """Of a model that wants the lengths, too: all are whole."""

    def __init__(self, body, classes):
        super().__init__()
        self.body, self.head = body, torch.nn.Linear(16, classes)

    def forward(self, x):
        lengths = torch.full((x.shape[0],), x.shape[1])
        return self.head(self.body(x, lengths)[0].mean(1))


MODELS = {
    "conformer": Case(lambda: Lengths(a.Conformer(16, 4, 32, 2, 7, dropout=0.1), 5), {"x": numbers(20, 16)}, "classes",
                      whole(5)),
    "emformer": Case(lambda: Lengths(a.Emformer(16, 4, 32, 2, 4, right_context_length=2), 5), {"x": numbers(18, 16)}, "classes",
                     whole(5)),
    "conv_tasnet": Case(lambda: a.ConvTasNet(
        num_sources=2, enc_num_feats=16, msk_num_feats=8, msk_num_hidden_feats=16, msk_num_layers=2, msk_num_stacks=1),
        {"input": numbers(1, 160)}, "numbers", numbers(2, 160)),
    "deepspeech": Case(lambda: a.DeepSpeech(16, 32, 5), {"x": numbers(1, 12, 16)}, "tokens", whole(5, 12)),
    "wav2letter": Case(lambda: a.Wav2Letter(5, "mfcc", 8), {"x": numbers(8, 24)}, "numbers", numbers(5, 12), batch=2),
    "hdemucs": Case(lambda: a.HDemucs(["a", "b"], audio_channels=1, channels=4, nfft=256, depth=3, dconv_lstm=1, dconv_attn=1),
                    {"input": numbers(1, 2048)}, "numbers", numbers(2, 1, 2048)),
    "wav2vec2_torchaudio": Case(lambda: Waves(a.wav2vec2_model(
        "group_norm", [(16, 10, 5), (16, 8, 4)], False, 32, 0.1, 16, 2, 2, 4, 0.1, 64, 0.1, 0.1, False, 0.1, 5)),
        {"waveforms": numbers(800)}, "classes", whole(5)),
    "squim": Case(lambda: Heads(a.squim_objective_model(16, 32, 8, 8, 10, 1, 4, 24, False)), {"x": numbers(1200)},
                  "numbers", numbers(3), batch=2),
}


class Waves(torch.nn.Module):
    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, waveforms):
        return self.body(waveforms)[0].mean(1)


class Heads(Waves):
    def forward(self, x):
        return torch.stack(self.body(x), 1)
