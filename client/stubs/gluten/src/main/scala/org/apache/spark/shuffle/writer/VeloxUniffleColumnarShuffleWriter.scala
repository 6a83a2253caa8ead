// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.writer

/**
 * Stands for backends-velox/src-uniffle/main/java/org/apache/spark/shuffle/writer/
 * VeloxUniffleColumnarShuffleWriter.java of apache/incubator-gluten, v1.6.0 (89718982). Only its
 * name is needed, and Gluten without Uniffle has no such class.
 */
abstract class VeloxUniffleColumnarShuffleWriter[K, V] {
  def doAddByte(partitionId: Int, data: Array[Byte], length: Int): Int
}
