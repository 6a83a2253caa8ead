// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.ui

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.scheduler.SparkListenerEvent

/**
 * What has changed in the driver's report, for Spark's UI and the event log. A History Server
 * without this class logs once that it drops the event. The name of the class and those of its
 * fields are in event logs: they stay.
 *
 * @param time
 *   since the epoch, in ms
 * @param report
 *   the report, as `LodestoneReport.json()` has it, with the shuffles that have changed only
 */
final case class SparkListenerLodestoneReport(time: Long, report: JsonNode)
    extends SparkListenerEvent
