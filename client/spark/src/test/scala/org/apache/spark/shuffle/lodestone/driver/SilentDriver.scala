// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver

import java.net.ServerSocket

import scala.concurrent.Future
import scala.concurrent.duration.{DurationInt, FiniteDuration}

import org.apache.spark.shuffle.lodestone.executor.link.DriverLink
import org.apache.spark.shuffle.lodestone.plan.{CountedMaps, Distrust, DriverMessage, GetCounts}
import org.apache.spark.shuffle.lodestone.plan.{GetPlan, GetReadPlan, OutputsLost, PlanAnswer}
import org.apache.spark.shuffle.lodestone.plan.{ServiceLocation, ShuffleGeneration}

/** A driver that fails each question. A test overrides the ones that it expects. */
private[lodestone] abstract class SilentDriver extends DriverLink {
  override def plan(asked: GetPlan): Future[PlanAnswer] = unexpected
  override def readPlan(asked: GetReadPlan): Future[PlanAnswer] = unexpected
  override def lost(outputs: OutputsLost): Future[Boolean] = unexpected
  override def suspected(id: ShuffleGeneration, taskId: Long): Future[Boolean] = unexpected
  override def distrust(id: ShuffleGeneration, reduceId: Int, why: Distrust): Future[Boolean] =
    unexpected
  override def counts(asked: GetCounts): Future[CountedMaps] = unexpected
  override def send(message: DriverMessage): Unit = unexpected
  override def answerTimeout: FiniteDuration = 10.seconds
  private def unexpected: Nothing = throw new AssertionError("no test expects this question")
}

private[lodestone] object SilentDriver {

  /** A service whose process has just ended: its port is closed. */
  def goneService(): ServiceLocation = {
    val socket = new ServerSocket(0)
    try ServiceLocation("127.0.0.1", socket.getLocalPort, 7)
    finally socket.close()
  }
}
