// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.comet

import org.apache.spark.SparkConf
import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.comet.execution.shuffle.CometShuffleManager
import org.apache.spark.sql.internal.{SQLConf, StaticSQLConf}

/**
 * Lets Comet plan its shuffles. Comet 0.12 compares the text of `spark.shuffle.manager`, in the
 * settings of the SQL session, with the name of its own manager, and plans Spark's shuffles if they
 * differ. Spark has created the manager long before, from its own configuration, in which the name
 * stays. So the text is set in each session, before the first plan is made: the check of a logical
 * plan is a hook that cannot change the plan.
 */
final class CometSessions extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit =
    extensions.injectCheckRule(session => _ => CometSessions.name(session.sessionState.conf))
}

private[comet] object CometSessions {
  private val Manager = "spark.shuffle.manager"
  private val Comets = classOf[CometShuffleManager].getName

  /** Adds the class to those of the user, on the driver, before there is a session. */
  def addTo(conf: SparkConf): Unit = {
    val key = StaticSQLConf.SPARK_SESSION_EXTENSIONS.key
    val others = conf.get(key, "").split(",").map(_.trim).filter(_.nonEmpty).toSeq
    val ours = classOf[CometSessions].getName
    if (!others.contains(ours)) {
      conf.set(key, (others :+ ours).mkString(","))
      ()
    }
  }

  private def name(session: SQLConf): Unit =
    if (!session.contains(Manager) || session.getConfString(Manager) != Comets) {
      session.setConfString(Manager, Comets)
    }
}
