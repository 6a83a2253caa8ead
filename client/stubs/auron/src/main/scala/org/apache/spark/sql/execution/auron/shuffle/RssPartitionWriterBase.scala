// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.execution.auron.shuffle

import java.nio.ByteBuffer

/**
 * Stands for the trait of this name of Apache Auron (releases 7.0.0, 8.0.0; commit 4b0a3451,
 * spark-extension/src/main/scala/org/apache/spark/sql/execution/auron/shuffle). Native code calls
 * `write(ILjava/nio/ByteBuffer;)V` and `flush()V` of this very interface (jni_bridge.rs).
 */
trait RssPartitionWriterBase {
  def write(partitionId: Int, buffer: ByteBuffer): Unit
  def flush(): Unit
  def close(success: Boolean): Unit
  def getPartitionLengthMap: Array[Long]
}
