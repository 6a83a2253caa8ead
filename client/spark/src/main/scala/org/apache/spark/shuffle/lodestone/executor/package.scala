// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

/**
 * Runs in executors. Tasks write and read. [[push.BlockPusher]] has threads of its own. Services
 * answer on network threads, and pauses and time-outs end on a timer's thread; neither may block.
 * The daemon of the host is found or started on a thread of its own.
 */
package object executor
