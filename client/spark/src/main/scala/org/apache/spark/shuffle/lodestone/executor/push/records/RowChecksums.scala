// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.records

import java.lang.invoke.{LambdaMetafactory, MethodHandle, MethodHandles, MethodType}

import org.apache.spark.ShuffleDependency

/**
 * The checksum of a map task's rows, in any order. By it Spark 4.1 and later finds out that a
 * repeated task made other rows than before. Dependencies have what computes it, for each
 * partition. One jar serves releases with and without it, so nothing of it is linked.
 */
private[push] trait RowChecksums {
  def add(partition: Int, key: Any, value: Any): Unit
  def value: Long
}

private[push] object RowChecksums {

  /** `RowBasedChecksum.update`. */
  trait Update {
    def apply(checksum: AnyRef, key: Any, value: Any): Unit
  }

  private val known: Option[Known] =
    classOf[ShuffleDependency[_, _, _]].getMethods
      .find(_.getName == "rowBasedChecksums")
      .map(method => new Known(MethodHandles.publicLookup().unreflect(method)))

  def apply(dependency: ShuffleDependency[_, _, _]): RowChecksums =
    known.flatMap(_.of(dependency)).getOrElse(NotWanted)

  private object NotWanted extends RowChecksums {
    override def add(partition: Int, key: Any, value: Any): Unit = ()
    override val value: Long = 0
  }

  private final class Known(ofDependency: MethodHandle) {
    private val all = ofDependency.`type`().returnType()
    private val one = all.getComponentType
    private lazy val update = linkedUpdate()
    private lazy val together = MethodHandles
      .publicLookup()
      .findStatic(
        one,
        "getAggregatedChecksumValue",
        MethodType.methodType(java.lang.Long.TYPE, all))

    def of(dependency: ShuffleDependency[_, _, _]): Option[RowChecksums] =
      ofDependency.invokeWithArguments(dependency) match {
        case each: Array[AnyRef] if each.nonEmpty => Some(new OfRows(each))
        case _ => None
      }

    private final class OfRows(each: Array[AnyRef]) extends RowChecksums {
      override def add(partition: Int, key: Any, value: Any): Unit =
        update(each(partition), key, value)

      override def value: Long =
        together.invokeWithArguments(List[AnyRef](each): _*).asInstanceOf[Long]
    }

    /** Links the method, so that a call for each row is fast. */
    private def linkedUpdate(): Update = {
      val lookup = MethodHandles.lookup()
      val anything = classOf[Object]
      val nothing = java.lang.Void.TYPE
      val called = MethodType.methodType(nothing, anything, anything)
      val site = LambdaMetafactory.metafactory(
        lookup,
        "apply",
        MethodType.methodType(classOf[Update]),
        MethodType.methodType(nothing, anything, anything, anything),
        lookup.findVirtual(one, "update", called),
        MethodType.methodType(nothing, one, anything, anything))
      site.getTarget.invokeWithArguments().asInstanceOf[Update]
    }
  }
}
