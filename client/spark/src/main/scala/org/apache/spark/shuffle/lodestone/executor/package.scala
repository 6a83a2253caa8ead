// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

/**
 * Runs in executors. Tasks write and read. [[push.BlockPusher]] has threads of its own. Services
 * answer on network threads, which must not block.
 */
package object executor
