// SPDX-License-Identifier: Apache-2.0
/**
 * What a native engine calls to keep its shuffles at services: {@link
 * org.apache.spark.shuffle.lodestone.engine.FramePush} in map tasks, and {@link
 * org.apache.spark.shuffle.lodestone.engine.EngineReader} in reduce tasks. The shuffle manager of
 * the engine gets both from the core of Lodestone ({@code docs/engines.md}).
 */
package org.apache.spark.shuffle.lodestone.engine;
