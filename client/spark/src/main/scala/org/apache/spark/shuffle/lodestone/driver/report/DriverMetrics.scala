// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.report

import com.codahale.metrics.{Gauge, MetricRegistry}

import org.apache.spark.metrics.source.Source
import org.apache.spark.shuffle.lodestone.plan.Reason

/**
 * The sums of the report in Spark's own metrics, for all sinks that the user configures:
 * `<application>.driver.lodestone.<name>`, and `.reason.<CODE>` for each [[Reason]].
 */
private[driver] final class DriverMetrics(report: DriverReport) extends Source {
  override val sourceName: String = "lodestone"
  override val metricRegistry: MetricRegistry = new MetricRegistry

  for ((name, _) <- report.numbers) gauge(name, report.numbers.toMap.apply(name))
  Reason.all.foreach { reason =>
    gauge(s"reason.${reason.code}", report.totals.reasons.getOrElse(reason.code, 0L))
  }

  private def gauge(name: String, value: => Long): Unit = {
    metricRegistry.register(
      name,
      new Gauge[Long] {
        override def getValue: Long = value
      })
    ()
  }
}
