// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.records

import java.lang.invoke.{MethodHandle, MethodHandles, MethodType}

import org.apache.spark.scheduler.MapStatus
import org.apache.spark.storage.BlockManagerId

/**
 * Creates the status of a map output. Since Spark 4.1 it has a checksum of the rows. One jar serves
 * releases with and without it.
 */
private[push] object MapStatuses {
  private val withoutChecksum = creator(java.lang.Long.TYPE)
  private val withChecksum = creator(java.lang.Long.TYPE, java.lang.Long.TYPE)

  def apply(
      location: BlockManagerId,
      sizes: Array[Long],
      mapId: Long,
      rows: RowChecksums): MapStatus = {
    val status = withChecksum match {
      case Some(create) =>
        val checksum = Long.box(rows.value)
        create.invokeWithArguments(MapStatus, location, sizes, Long.box(mapId), checksum)
      case None =>
        withoutChecksum.get.invokeWithArguments(MapStatus, location, sizes, Long.box(mapId))
    }
    status.asInstanceOf[MapStatus]
  }

  private def creator(numbers: Class[_]*): Option[MethodHandle] = {
    val parameters = Seq(classOf[BlockManagerId], classOf[Array[Long]]) ++ numbers
    val signature = MethodType.methodType(classOf[MapStatus], parameters.toArray[Class[_]])
    try {
      Some(MethodHandles.publicLookup().findVirtual(MapStatus.getClass, "apply", signature))
    } catch {
      case _: NoSuchMethodException => None
    }
  }
}
