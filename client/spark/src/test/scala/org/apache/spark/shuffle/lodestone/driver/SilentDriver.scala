// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver

import java.net.ServerSocket

import scala.concurrent.Future
import scala.concurrent.duration.{DurationInt, FiniteDuration}
import scala.reflect.ClassTag

import org.apache.spark.shuffle.lodestone.executor.link.DriverLink
import org.apache.spark.shuffle.lodestone.plan._

/** A driver that fails each question. A test overrides the ones that it expects. */
private[lodestone] abstract class SilentDriver extends DriverLink {
  final override def ask[A: ClassTag](question: Question[A]): Future[A] = {
    def answer: Future[_] = question match {
      case asked: GetPlan => plan(asked)
      case asked: GetReadPlan => readPlan(asked)
      case asked: GetCounts => counts(asked)
      case outputs: OutputsLost => lost(outputs)
      case _: DistrustMerged | _: OutputsSuspected => unexpected
    }
    try {
      answer.mapTo[A]
    } catch {
      // As from Spark's RPC. An assertion fails the test.
      case failure: Exception => Future.failed(failure)
    }
  }

  def plan(asked: GetPlan): Future[PlanAnswer] = unexpected
  def readPlan(asked: GetReadPlan): Future[PlanAnswer] = unexpected
  def lost(outputs: OutputsLost): Future[Boolean] = unexpected
  def counts(asked: GetCounts): Future[CountedMaps] = unexpected
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
