"""torchaudio's models of waves and spectra."""
import torch
from case import Case, numbers, whole
from torchaudio import models as a

LIBRARY = "torchaudio"


class Layers(torch.nn.Module):
    """A Conformer without the lengths of its samples, whose maximum no graph can hold: all are whole."""

    def __init__(self, body, classes):
        super().__init__()
        self.body, self.head = body.conformer_layers, torch.nn.Linear(16, classes)

    def forward(self, x):
        x = x.transpose(0, 1)
        for layer in self.body:
            x = layer(x, None)
        return self.head(x.mean(0))


class Steps(torch.nn.Module):
    """Classes of each step of a wave, without the dimension of channels."""

    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, waveform, specgram):
        return self.body(waveform, specgram)[:, 0]


class Waves(torch.nn.Module):
    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, waveforms):
        return self.body(waveforms)[0].mean(1)


MODELS = {
    "conformer": Case(lambda: Layers(a.Conformer(16, 4, 32, 2, 7, dropout=0.1), 5), {"x": numbers(20, 16)}, "classes",
                      whole(5)),
    "conv_tasnet": Case(lambda: a.ConvTasNet(
        num_sources=2, enc_num_feats=16, msk_num_feats=8, msk_num_hidden_feats=16, msk_num_layers=2, msk_num_stacks=1),
        {"input": numbers(1, 160)}, "numbers", numbers(2, 160)),
    "deepspeech": Case(lambda: a.DeepSpeech(16, 32, 5), {"x": numbers(1, 12, 16)}, "tokens", whole(5, 12)),
    "wav2letter": Case(lambda: a.Wav2Letter(5, "mfcc", 8), {"x": numbers(8, 24)}, "numbers", numbers(5, 13), batch=2),
    "wavernn": Case(lambda: Steps(a.WaveRNN([2, 2], 16, 4, n_res_block=2, n_rnn=16, n_fc=16, n_freq=8, n_hidden=8, n_output=8)),
                    {"waveform": numbers(1, 20), "specgram": numbers(1, 8, 9)}, "tokens", whole(16, 20)),
    "wav2vec2_torchaudio": Case(lambda: Waves(a.wav2vec2_model(
        "group_norm", [(16, 10, 5), (16, 8, 4)], False, 32, 0.1, 16, 2, 2, 4, 0.1, 64, 0.1, 0.1, False, 0.1, 5)),
        {"waveforms": numbers(800)}, "classes", whole(5)),
}
