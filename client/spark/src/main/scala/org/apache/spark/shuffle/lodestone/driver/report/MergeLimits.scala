// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.report

/** A shuffle is merged from this number of blocks on, up to this mean size. */
private[driver] final case class MergeLimits(leastBlocks: Long, largestMeanBytes: Long)
