// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.ui

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.scheduler.SparkListenerEvent

/**
 * What has changed in the driver's report, for Spark's UI and the event log. A History Server
 * without this class drops the event, and logs it once. Event logs contain the names of this class
 * and of its fields: do not change them.
 *
 * @param time
 *   since the epoch, in ms
 * @param report
 *   the report, as `LodestoneReport.json()` has it, with the shuffles that have changed only
 */
final case class SparkListenerLodestoneReport(time: Long, report: JsonNode)
    extends SparkListenerEvent
