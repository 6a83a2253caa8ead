// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.plans

import java.util.function.{Function => JFunction}
import java.util.stream.Stream

import org.apache.spark.{ShuffleDependency, SparkException}
import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.trees.TreeNode
import org.apache.spark.sql.execution.SparkPlan

/**
 * Finds out which code makes a shuffle. An operator that is not Spark's may make an exchange as
 * Spark does, and then read its blocks by a fetch iterator of its own, in Spark's format: Delta's
 * optimised write does. Such an operator is on the stack when it makes the exchange.
 */
private[driver] object ShuffleOrigin {
  private val Lodestone = "org.apache.spark.shuffle.lodestone."

  /**
   * Where Spark begins to run a query, or a stage of one. Threads of Spark's pools (stages since
   * Spark 4, broadcasts, subqueries) begin in `SQLExecution` as well. It is not known who waits for
   * such a thread: that is Spark itself, unless an operator that is not Spark's submits a stage.
   */
  private val Entries = Seq(
    "org.apache.spark.sql.execution.SQLExecution",
    "org.apache.spark.sql.execution.QueryExecution",
    "org.apache.spark.sql.execution.adaptive.ShuffleQueryStageExec")

  private val Language = Seq("scala.", "java.", "jdk.", "sun.")

  /**
   * Packages of the classes between an entry and an exchange. Other people's classes are below
   * `org.apache.spark` too, and an assembly has all classes in one jar.
   */
  private val Packages = Seq(
    "org.apache.spark.rdd.",
    "org.apache.spark.sql.catalyst.",
    "org.apache.spark.sql.classic.",
    "org.apache.spark.sql.execution.",
    "org.apache.spark.util.")
  private val PackagesThemselves = Set("org.apache.spark", "org.apache.spark.sql")

  /** Spark's jars: other people's classes may be in Spark's packages, but not in these. */
  private lazy val jars: Set[Option[String]] = Set[Class[_]](
    classOf[ShuffleDependency[_, _, _]],
    classOf[SparkException],
    classOf[Row],
    classOf[TreeNode[_]],
    classOf[SparkPlan]).map(jarOf)

  /**
   * True if only Spark's own code is between the making of a shuffle, on this thread, and the begin
   * of a query. In doubt it is false, and blocks keep Spark's format, which every operator reads.
   */
  def isSparksOwn: Boolean = {
    val decides: JFunction[Stream[StackWalker.StackFrame], Boolean] = frames => {
      val callers = frames.map[Class[_]](_.getDeclaringClass).iterator()
      var caller: Option[Class[_]] = None
      while (caller.isEmpty && callers.hasNext) {
        caller = Some(callers.next()).filter(one => isEntry(one) || !isInBetween(one))
      }
      caller.exists(one => isEntry(one) && isSparks(one))
    }
    walker.walk[Boolean](decides)
  }

  private val walker = StackWalker.getInstance(StackWalker.Option.RETAIN_CLASS_REFERENCE)

  private def isEntry(caller: Class[_]): Boolean = Entries.exists { entry =>
    // Companions and classes inside.
    caller.getName == entry || caller.getName.startsWith(entry + "$")
  }

  private def isInBetween(caller: Class[_]): Boolean = {
    val name = caller.getName
    name.startsWith(Lodestone) || Language.exists(name.startsWith(_)) || isSparks(caller)
  }

  private def isSparks(caller: Class[_]): Boolean = {
    val name = caller.getName
    val isNamedSo = Packages.exists(name.startsWith(_)) ||
      PackagesThemselves(name.take(name.lastIndexOf('.')))
    isNamedSo && jars(jarOf(caller))
  }

  private def jarOf(which: Class[_]): Option[String] = for {
    source <- Option(which.getProtectionDomain.getCodeSource)
    location <- Option(source.getLocation)
  } yield location.toString
}
