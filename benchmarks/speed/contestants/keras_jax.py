"""Keras 3 on jax: its layers, loss, Adam and `train_on_batch`.

Ours: the model's plan. Keras has no decoder whose attention is asked inside the recurrence, so that its model S is the
usual one there: a GRU over the whole target, asked afterwards, with the same readout and output layer. That is less
work than S (no context enters the GRU: 4.7 MFLOP a token), and nothing but the GRU goes a step at a time.

jax compiles a step for every shape: batches are padded to multiples of 8, and each shape is compiled before the clock
starts. Its threads are held to their number by the cores it may use.
"""

from __future__ import annotations

import os

os.environ["KERAS_BACKEND"] = "jax"
os.environ["JAX_PLATFORMS"] = "cpu"

import contest
import keras
import numpy as np
from contest import CLIP, LEARNING_RATE, SEED, Job, Watch
from keras import layers
from shapes import BOS, PAD, Shape


def translator(shape: Shape) -> keras.Model:
    source, before = keras.Input((None,), dtype="int32"), keras.Input((None,), dtype="int32")
    embedded = layers.Embedding(shape.vocabulary, shape.embedding, mask_zero=True)(source)
    gru = layers.GRU(shape.encoder, return_sequences=True, return_state=True)
    values, forward, backward = layers.Bidirectional(gru)(embedded)
    target = layers.Embedding(shape.vocabulary, shape.embedding)(before)
    states = layers.GRU(shape.decoder, return_sequences=True)(
        target, initial_state=layers.Concatenate()([forward, backward])
    )
    query = layers.Dense(shape.decoder, use_bias=False)(states)
    keys = layers.Dense(shape.decoder, use_bias=False)(values)
    mask = layers.Lambda(lambda ids: ids != PAD)(source)
    context = layers.AdditiveAttention()([query, values, keys], mask=[None, mask])
    readout = layers.Dense(shape.decoder, activation="tanh", use_bias=False)(layers.Concatenate()([states, context]))
    return keras.Model([source, before], layers.Dense(shape.vocabulary)(readout))


def language_model(shape: Shape) -> keras.Model:
    source = keras.Input((None,), dtype="int32")
    x = layers.Embedding(shape.vocabulary, shape.embedding)(source)
    for _ in range(shape.layers):
        x = layers.LSTM(shape.decoder, return_sequences=True)(x)
    return keras.Model([source], layers.Dense(shape.vocabulary)(x))


def wider(ids: np.ndarray) -> np.ndarray:
    return np.pad(ids, ((0, 0), (0, -ids.shape[1] % 8))).astype(np.int32)


def arrays(batch: contest.Batch, translating: bool) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Inputs, gold, and weights that make the loss a mean over real tokens."""
    if not translating:
        return [batch.source.astype(np.int32)], batch.target.astype(np.int32), np.ones(batch.target.shape, np.float32)
    target = wider(batch.target)
    before = np.concatenate([np.full_like(target[:, :1], BOS), target[:, :-1]], axis=1)
    real = (target != PAD).astype(np.float32)
    return [wider(batch.source), before], target, real * real.size / real.sum()


def train(job: Job, batches: list[contest.Batch], watch: Watch) -> None:
    keras.utils.set_random_seed(SEED)
    shape = job.shape
    model = (translator if shape.encoder else language_model)(shape)
    model.compile(
        optimizer=keras.optimizers.Adam(LEARNING_RATE, epsilon=1e-8, global_clipnorm=CLIP),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    held = [arrays(batch, bool(shape.encoder)) for batch in batches]
    model.optimizer.build(model.trainable_variables)
    variables = [*model.variables, *model.optimizer.variables]
    start = [keras.ops.convert_to_numpy(variable) for variable in variables]
    for inputs, gold, weights in {tuple(np.shape(part) for part in (*x, y)): (x, y, w) for x, y, w in held}.values():
        model.train_on_batch(inputs, gold, weights)  # to compile it
    for variable, value in zip(variables, start, strict=True):
        variable.assign(value)
    watch.begin(model.count_params())
    for inputs, gold, weights in held:
        model.reset_metrics()
        watch.step(float(np.ravel(model.train_on_batch(inputs, gold, weights))[0]))


if __name__ == "__main__":
    contest.run(train)
