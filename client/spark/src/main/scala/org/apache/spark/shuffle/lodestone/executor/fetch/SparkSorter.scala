// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.fetch

import java.lang.reflect.{Array => JavaArray}

import org.apache.spark.TaskContext
import org.apache.spark.serializer.Serializer
import org.apache.spark.util.collection.ExternalSorter

/**
 * Spark's sorter. From 4.1 on its constructor has one more parameter (checksums that only map tasks
 * need). One jar serves 4.0 too, so it looks the constructor up.
 */
private[fetch] object SparkSorter {
  private val LinkedParameters = 5

  private val constructor = classOf[ExternalSorter[_, _, _]].getConstructors.head

  /** Later releases have added arrays, which are empty by default. */
  private val added: Seq[AnyRef] = constructor.getParameterTypes.toSeq
    .drop(LinkedParameters)
    .map(parameter => JavaArray.newInstance(parameter.getComponentType, 0))

  /** Sorts by key, without combining. */
  def apply[K, C](
      context: TaskContext,
      ordering: Ordering[K],
      serializer: Serializer): ExternalSorter[K, C, C] = {
    val arguments = Seq[AnyRef](context, None, None, Some(ordering), serializer) ++ added
    constructor.newInstance(arguments: _*).asInstanceOf[ExternalSorter[K, C, C]]
  }
}
