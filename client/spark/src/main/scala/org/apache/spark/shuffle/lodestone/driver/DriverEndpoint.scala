// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver

import org.apache.spark.SparkException
import org.apache.spark.rpc.{RpcCallContext, RpcEnv, ThreadSafeRpcEndpoint}
import org.apache.spark.shuffle.lodestone.driver.counts.MapCounts
import org.apache.spark.shuffle.lodestone.driver.events.EventLoop
import org.apache.spark.shuffle.lodestone.driver.loss.LostOutputs
import org.apache.spark.shuffle.lodestone.driver.plans.{Planner, Readers}
import org.apache.spark.shuffle.lodestone.driver.report.DriverReport
import org.apache.spark.shuffle.lodestone.driver.services.{EmbeddedHosts, ServiceDirectory}
import org.apache.spark.shuffle.lodestone.plan._

/** Receives the messages of executors and makes an event of the loop of each. */
private[driver] final class DriverEndpoint(
    override val rpcEnv: RpcEnv,
    loop: EventLoop,
    planner: Planner,
    readers: Readers,
    outputs: LostOutputs,
    directory: ServiceDirectory,
    hosts: Option[EmbeddedHosts],
    counts: MapCounts,
    report: DriverReport,
    answers: OwnClasses)
    extends ThreadSafeRpcEndpoint {

  /** One-way messages are reports. If too many events wait, reports are lost, and nothing else. */
  override def receive: PartialFunction[Any, Unit] = {
    case message: MapPushed => loop.offer(() => readers.pushed(message))
    case message: MapCounted =>
      loop.offer(message.records.bytes.toLong)(() => counts.counted(message))
    case message: MapEncoded => loop.offer(() => report.encoded(message))
    case message: TaskRead => loop.offer(() => report.read(message))
    case message: ServiceFound =>
      loop.offer { () =>
        hosts.foreach(_.serviceFound(message))
        directory.greet(message.address)
      }
    case message: ServiceMissing => loop.offer(() => hosts.foreach(_.serviceMissing(message)))
  }

  override def receiveAndReply(context: RpcCallContext): PartialFunction[Any, Unit] = {
    case message: GetPlan => offer(context)(planner.plan(message, answer(context, _)))
    case message: GetReadPlan => offer(context)(readers.readPlan(message, answer(context, _)))
    case message: GetCounts =>
      // An executor without an answer reads without comparing, and asks again after a while.
      offer(context)(context.reply(answers.write(counts.answer(message))))
    case message: OutputsLost =>
      // A driver with too many events has not asked the services: the answer must not claim it.
      offer(context)(outputs.lost(message, context.reply(_)))
    case message: DistrustMerged =>
      if (!loop.offer(() => context.reply(readers.distrust(message)))) context.reply(false)
    case message: OutputsSuspected => offer(context)(context.reply(outputs.suspected(message)))
  }

  /** An executor keeps an answer. After a failure it asks again. */
  private def answer(context: RpcCallContext, plan: PlanAnswer): Unit = plan match {
    case NoPlan(Reason.DriverUnreachable, _) => failBusy(context)
    case _ => context.reply(answers.write(plan))
  }

  private def offer(context: RpcCallContext)(event: => Unit): Unit =
    if (!loop.offer(() => event)) failBusy(context)

  private def failBusy(context: RpcCallContext): Unit =
    context.sendFailure(new SparkException(Reason.DriverUnreachable.sentence))
}
