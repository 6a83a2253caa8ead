// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.push.records

import java.lang.invoke.{MethodHandle, MethodHandles, MethodType}

import org.apache.spark.ShuffleDependency
import org.apache.spark.scheduler.MapStatus
import org.apache.spark.storage.BlockManagerId

/**
 * What a map task says of its output. Spark 4.1 added a checksum of its rows to it, and to dependencies
 * what computes that: one jar serves releases with and without.
 */
private[records] object MapStatuses {
  private val withoutChecksum = creator(java.lang.Long.TYPE)
  private val withChecksum = creator(java.lang.Long.TYPE, java.lang.Long.TYPE)
  private val rowChecksums: Option[MethodHandle] =
    classOf[ShuffleDependency[_, _, _]].getMethods
      .find(_.getName == "rowBasedChecksums")
      .map(MethodHandles.publicLookup().unreflect)

  def apply(location: BlockManagerId, lengths: Array[Long], mapId: Long): MapStatus = {
    val status = withChecksum match {
      case Some(create) =>
        create.invokeWithArguments(MapStatus, location, lengths, Long.box(mapId), Long.box(0))
      case None =>
        withoutChecksum.get.invokeWithArguments(MapStatus, location, lengths, Long.box(mapId))
    }
    status.asInstanceOf[MapStatus]
  }

  /** Spark wants to know a checksum of the rows of its map outputs. */
  def wantsRowChecksums(dependency: ShuffleDependency[_, _, _]): Boolean =
    rowChecksums.exists { of =>
      of.invokeWithArguments(dependency) match {
        case computed: Array[_] => computed.nonEmpty
        case _ => false
      }
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
