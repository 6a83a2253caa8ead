// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

/**
 * The keys of the plugin, in both JVMs, which are read once and do not change, and its loggers and
 * names of threads. Any thread may use them.
 */
package object config
