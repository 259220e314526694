// CUDA's operators that the CPU has under another name or not at all, written out: attention, batch normalisation in
// parts, dropout, products of half precision that are left as f32.
#include "numbers.h"
#include <ATen/CPUGeneratorImpl.h>
#include <cmath>

using at::Tensor;
using c10::IValue;
using Maybe = std::optional<Tensor>;

namespace {

Maybe maybe(const IValue &v) {
  if (v.isNone() || !v.toTensor().defined()) return {};
  return v.toTensor();
}
std::optional<double> maybe_number(const IValue &v) {
  if (v.isNone()) return {};
  return v.toDouble();
}
template <class... A> void give(Stack &s, A &&...results) {
  s.clear();
  (s.emplace_back(std::forward<A>(results)), ...);
}
Tensor no_seed() { return at::zeros({}, at::kLong); }

// ---- attention: by the CPU's flash kernel, and step by step where it drops out

struct Weights {
  Tensor softmax, mask;
  double scale;
};

Weights weights_of(const Tensor &q, const Tensor &k, const Maybe &bias, double drop, bool causal, std::optional<double> scale,
                   int64_t seed) {
  double factor = scale ? *scale : 1 / std::sqrt((double)q.size(3));
  Tensor scores = at::matmul(q.to(at::kFloat), k.to(at::kFloat).transpose(2, 3)) * factor;
  if (causal) scores.masked_fill_(at::ones({q.size(2), k.size(2)}, at::kBool).tril().logical_not(), -INFINITY);
  if (bias) scores = scores + *bias;
  Tensor mask = at::empty_like(scores).bernoulli_(1 - drop, at::detail::createCPUGenerator(seed)) / (1 - drop);
  return {at::softmax(scores, -1), mask, factor};
}

/** Output and the seed by which backward draws the same mask. */
std::pair<Tensor, Tensor> dropped_attention(const Tensor &q, const Tensor &k, const Tensor &v, const Maybe &bias, double drop,
                                            bool causal, std::optional<double> scale) {
  Tensor seed = at::randint(1ll << 40, {}, generator_now, at::kLong);
  Weights w = weights_of(q, k, bias, drop, causal, scale, seed.item<int64_t>());
  return {at::matmul(w.softmax * w.mask, v.to(at::kFloat)).to(q.scalar_type()), seed};
}

std::tuple<Tensor, Tensor, Tensor> dropped_attention_backward(const Tensor &grad, const Tensor &q, const Tensor &k,
                                                              const Tensor &v, const Maybe &bias, double drop, bool causal,
                                                              std::optional<double> scale, const Tensor &seed) {
  Weights w = weights_of(q, k, bias, drop, causal, scale, seed.item<int64_t>());
  Tensor g = grad.to(at::kFloat), into = at::matmul(g, v.to(at::kFloat).transpose(2, 3)) * w.mask;
  Tensor scores = w.softmax * (into - (into * w.softmax).sum(-1, true)) * w.scale;
  auto type = q.scalar_type();
  return {at::matmul(scores, k.to(at::kFloat)).to(type), at::matmul(scores.transpose(2, 3), q.to(at::kFloat)).to(type),
          at::matmul((w.softmax * w.mask).transpose(2, 3), g).to(type)};
}

// q k v dropout causal return_mask scale
void flash(const c10::OperatorHandle &, Stack &s) {
  Tensor q = s[0].toTensor(), k = s[1].toTensor(), v = s[2].toTensor(), out, sums, seed = at::zeros({2}, at::kLong);
  double drop = s[3].toDouble();
  bool causal = s[4].toBool();
  auto scale = maybe_number(s[6]);
  if (drop > 0) {
    std::tie(out, seed) = dropped_attention(q, k, v, {}, drop, causal, scale);
    sums = at::zeros({q.size(0), q.size(1), q.size(2)});
  } else std::tie(out, sums) = at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, 0, causal, {}, scale);
  give(s, out, sums, Tensor(), Tensor(), q.size(2), k.size(2), seed, no_seed(), at::empty({0}, out.options()));
}
// grad q k v out sums cum_q cum_k max_q max_k dropout causal seed offset scale
void flash_backward(const c10::OperatorHandle &, Stack &s) {
  Tensor g = s[0].toTensor(), q = s[1].toTensor(), k = s[2].toTensor(), v = s[3].toTensor(), dq, dk, dv;
  double drop = s[10].toDouble();
  bool causal = s[11].toBool();
  auto scale = maybe_number(s[14]);
  if (drop > 0) std::tie(dq, dk, dv) = dropped_attention_backward(g, q, k, v, {}, drop, causal, scale, s[12].toTensor());
  else std::tie(dq, dk, dv) = at::_scaled_dot_product_flash_attention_for_cpu_backward(g, q, k, v, s[4].toTensor(), s[5].toTensor(), 0, causal, {}, scale);
  give(s, dq, dk, dv);
}
// q k v cum_q cum_k max_q max_k dropout causal return_mask scale ..., tokens before heads
void flash_forward(const c10::OperatorHandle &op, Stack &s) {
  auto turned = [](const IValue &v) { return v.toTensor().transpose(1, 2); };
  Stack own{turned(s[0]), turned(s[1]), turned(s[2]), s[7], s[8], s[9], s[10]};
  flash(op, own);
  give(s, own[0].toTensor().transpose(1, 2).contiguous(), own[1].toTensor(), own[6].toTensor(), own[7].toTensor(), own[8].toTensor());
}
// grad q k v out sums cum_q cum_k max_q max_k dropout causal seed unused scale ..., tokens before heads
void flash_forward_backward(const c10::OperatorHandle &op, Stack &s) {
  auto turned = [](const IValue &v) { return v.toTensor().transpose(1, 2); };
  Stack own{turned(s[0]), turned(s[1]), turned(s[2]), turned(s[3]), turned(s[4])};
  own.insert(own.end(), s.begin() + 5, s.begin() + 15);
  flash_backward(op, own);
  auto back = [](const IValue &v) { return v.toTensor().transpose(1, 2).contiguous(); };
  give(s, back(own[0]), back(own[1]), back(own[2]));
}
// q k v bias compute_sums dropout causal scale
void efficient(const c10::OperatorHandle &, Stack &s) {
  Tensor q = s[0].toTensor(), k = s[1].toTensor(), v = s[2].toTensor(), out, sums, seed = no_seed();
  Maybe bias = maybe(s[3]);
  double drop = s[5].toDouble();
  bool causal = s[6].toBool();
  auto scale = maybe_number(s[7]);
  if (drop > 0) {
    std::tie(out, seed) = dropped_attention(q, k, v, bias, drop, causal, scale);
    sums = at::zeros({q.size(0), q.size(1), q.size(2)});
  } else std::tie(out, sums) = at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, 0, causal, bias, scale);
  give(s, out, sums, seed, no_seed());
}
// grad q k v bias out sums seed offset dropout mask causal scale
void efficient_backward(const c10::OperatorHandle &, Stack &s) {
  Tensor g = s[0].toTensor(), q = s[1].toTensor(), k = s[2].toTensor(), v = s[3].toTensor(), dq, dk, dv;
  Maybe bias = maybe(s[4]);
  double drop = s[9].toDouble();
  bool causal = s[11].toBool();
  auto scale = maybe_number(s[12]);
  if (drop > 0) std::tie(dq, dk, dv) = dropped_attention_backward(g, q, k, v, bias, drop, causal, scale, s[7].toTensor());
  else std::tie(dq, dk, dv) = at::_scaled_dot_product_flash_attention_for_cpu_backward(g, q, k, v, s[5].toTensor(), s[6].toTensor(), 0, causal, bias, scale);
  give(s, dq, dk, dv, Tensor());
}

// ---- batch normalisation

// input weight bias mean variance training momentum eps
void batch_norm(const c10::OperatorHandle &, Stack &s) {
  auto [out, mean, inverse] = at::native_batch_norm(s[0].toTensor(), maybe(s[1]), maybe(s[2]), maybe(s[3]), maybe(s[4]), s[5].toBool(), s[6].toDouble(), s[7].toDouble());
  give(s, out, mean, inverse, at::empty({0}, at::kByte));
}
// input grad weight mean variance saved_mean saved_inverse eps reserve
void batch_norm_backward(const c10::OperatorHandle &, Stack &s) {
  auto [dx, dw, db] = at::native_batch_norm_backward(s[1].toTensor(), s[0].toTensor(), maybe(s[2]), maybe(s[3]), maybe(s[4]), maybe(s[5]), maybe(s[6]), true, s[7].toDouble(), {true, true, true});
  give(s, dx, dw, db);
}

/** The dimensions that a channel's statistics are over, and the shape in which they are applied. */
struct Channels {
  std::vector<int64_t> over, shape;
  explicit Channels(const Tensor &x) {
    for (int64_t i = 0; i < x.dim(); i++) {
      if (i != 1) over.push_back(i);
      shape.push_back(i == 1 ? x.size(1) : 1);
    }
  }
};
at::ScalarType exact(const Tensor &x) { return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

// input eps
void stats(const c10::OperatorHandle &, Stack &s) {
  Tensor x = s[0].toTensor().to(exact(s[0].toTensor()));
  Channels c(x);
  give(s, x.mean(c.over), (x.var(c.over, false) + s[1].toDouble()).rsqrt());
}
// input mean inverse running_mean running_variance momentum eps counts
void gather_stats(const c10::OperatorHandle &, Stack &s) {
  Tensor mean = s[1].toTensor(), inverse = s[2].toTensor();
  Tensor n = s[7].toTensor().to(mean.scalar_type()).view({-1, 1});
  double momentum = s[5].toDouble(), eps = s[6].toDouble();
  Tensor total = n.sum(), all = (mean * n).sum(0) / total;
  Tensor variance = ((inverse.pow(-2) - eps + (mean - all).square()) * n).sum(0) / total;
  if (auto running = maybe(s[3])) running->mul_(1 - momentum).add_(all.to(running->scalar_type()), momentum);
  if (auto running = maybe(s[4])) running->mul_(1 - momentum).add_((variance * total / (total - 1)).to(running->scalar_type()), momentum);
  give(s, all, (variance + eps).rsqrt());
}
// input weight bias mean inverse eps
void elements(const c10::OperatorHandle &, Stack &s) {
  Tensor x = s[0].toTensor();
  Channels c(x);
  Tensor y = (x.to(exact(x)) - s[3].toTensor().view(c.shape)) * s[4].toTensor().view(c.shape);
  if (auto weight = maybe(s[1])) y = y * weight->view(c.shape);
  if (auto bias = maybe(s[2])) y = y + bias->view(c.shape);
  give(s, y.to(x.scalar_type()));
}
// grad input mean inverse weight -> sum of grad, of grad times distance, of the weight, of the bias
void backward_sums(const c10::OperatorHandle &, Stack &s) {
  Tensor x = s[1].toTensor(), inverse = s[3].toTensor();
  Channels c(x);
  auto type = exact(x);
  Tensor g = s[0].toTensor().to(type), sum = g.sum(c.over);
  Tensor distance = (g * (x.to(type) - s[2].toTensor().view(c.shape))).sum(c.over);
  auto weight = maybe(s[4]);
  auto as = weight ? weight->scalar_type() : type;
  give(s, sum, distance, (distance * inverse).to(as), sum.clone().to(as));
}
// grad input mean inverse weight sum distance counts
void backward_elements(const c10::OperatorHandle &, Stack &s) {
  Tensor x = s[1].toTensor();
  Channels c(x);
  auto type = exact(x);
  Tensor n = s[7].toTensor().sum().to(type), inverse = s[3].toTensor().view(c.shape);
  Tensor own = s[0].toTensor().to(type) - s[5].toTensor().view(c.shape) / n;
  Tensor y = (own - (x.to(type) - s[2].toTensor().view(c.shape)) * inverse.square() * (s[6].toTensor().view(c.shape) / n)) * inverse;
  if (auto weight = maybe(s[4])) y = y * weight->view(c.shape);
  give(s, y.to(x.scalar_type()));
}

// ---- products of half precision that are left as f32

// a b type out
template <Tensor (*product)(const Tensor &, const Tensor &)> void widened(const c10::OperatorHandle &, Stack &s) {
  Tensor a = s[0].toTensor(), b = s[1].toTensor(), out = s[3].toTensor();
  out.copy_(product(a.to(at::kFloat), b.to(at::kFloat)));
  give(s, out);
}
// a b type
template <Tensor (*product)(const Tensor &, const Tensor &)> void widened_anew(const c10::OperatorHandle &, Stack &s) {
  Tensor a = s[0].toTensor(), b = s[1].toTensor();
  give(s, product(a.to(at::kFloat), b.to(at::kFloat)));
}

// input p train
void dropout(const c10::OperatorHandle &, Stack &s) {
  Tensor x = s[0].toTensor();
  double p = s[1].toDouble();
  auto bools = x.options().dtype(at::kBool);
  if (!s[2].isNone() && !s[2].toBool()) return give(s, x.clone(), at::ones_like(x, bools));
  Tensor mask = at::empty_like(x, bools).bernoulli_(1 - p, generator_now);
  give(s, x * mask * (p == 1 ? 0. : 1 / (1 - p)), mask);
}

} // namespace

std::unordered_map<std::string, Run> written_out() {
  return {
      {"aten::_scaled_dot_product_flash_attention", flash},
      {"aten::_scaled_dot_product_flash_attention_backward", flash_backward},
      {"aten::_flash_attention_forward", flash_forward},
      {"aten::_flash_attention_backward", flash_forward_backward},
      {"aten::_scaled_dot_product_efficient_attention", efficient},
      {"aten::_scaled_dot_product_efficient_attention_backward", efficient_backward},
      {"aten::cudnn_batch_norm", batch_norm},
      {"aten::cudnn_batch_norm_backward", batch_norm_backward},
      {"aten::native_dropout", dropout},
      {"aten::mm.dtype_out", widened<at::mm>},
      {"aten::bmm.dtype_out", widened<at::bmm>},
      {"aten::mm.dtype", widened_anew<at::mm>},
      {"aten::bmm.dtype", widened_anew<at::bmm>},
      {"aten::batch_norm_stats", stats},
      {"aten::batch_norm_gather_stats_with_counts", gather_stats},
      {"aten::batch_norm_elemt", elements},
      {"aten::batch_norm_backward_reduce", backward_sums},
      {"aten::batch_norm_backward_elemt", backward_elements},
  };
}
