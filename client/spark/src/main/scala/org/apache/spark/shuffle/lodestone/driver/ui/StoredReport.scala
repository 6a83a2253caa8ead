// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.ui

import scala.collection.mutable

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import com.fasterxml.jackson.databind.node.{JsonNodeFactory, ObjectNode}

import org.apache.spark.scheduler.{SparkListener, SparkListenerEvent}
import org.apache.spark.status.KVUtils.KVIndexParam
import org.apache.spark.util.kvstore.KVStore

/** The last report without its shuffles, in the store of Spark's UI. */
private[ui] final class StoredTotals(@KVIndexParam val id: String, val time: Long, val json: String)

/** What the last report with this shuffle said of it. */
private[ui] final class StoredShuffle(
    @KVIndexParam val shuffleId: Int,
    val time: Long,
    val json: String)

/**
 * Keeps reports in the store of Spark's UI: of an application that runs, or from its event log. An
 * event that waited while the last report was written stands behind it, and is older.
 */
private[ui] final class ReportListener(store: KVStore) extends SparkListener {
  import StoredReport._

  /** Those in the store. The bus calls a listener from one thread. */
  private val kept = mutable.TreeSet.empty[Int]
  private var lastTime = Long.MinValue

  override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
    case SparkListenerLodestoneReport(time, report: ObjectNode) =>
      JsonParts.elements(report.path(Shuffles)).foreach(keep(time, _))
      if (time >= lastTime) keepTotals(time, report)
    case _ =>
  }

  private def keepTotals(time: Long, report: ObjectNode): Unit = {
    lastTime = time
    val rest = JsonNodeFactory.instance.objectNode()
    for ((name, value) <- JsonParts.fields(report) if name != Shuffles) {
      rest.set[JsonNode](name, value)
    }
    store.write(new StoredTotals(Latest, time, rest.toString))
  }

  private def keep(time: Long, shuffle: JsonNode): Unit = {
    val id = shuffle.path("shuffleId").asInt
    if (!kept(id) || store.read(classOf[StoredShuffle], id).time <= time) put(id, time, shuffle)
  }

  private def put(id: Int, time: Long, shuffle: JsonNode): Unit = {
    store.write(new StoredShuffle(id, time, shuffle.toString))
    kept += id
    if (kept.size > MaxKept) {
      store.delete(classOf[StoredShuffle], kept.head)
      kept -= kept.head
    }
  }
}

private[ui] object StoredReport {
  val Latest = "latest"
  val Shuffles = "shuffles"

  /** 1 MB. */
  val MaxKept = 1000
}

/** The reports that [[ReportListener]] has kept. */
private[ui] final class StoredReport(store: KVStore) {
  import StoredReport._

  private val mapper = new ObjectMapper()

  def isEmpty: Boolean = store.count(classOf[StoredTotals]) == 0

  /** The last report, without its shuffles, and its time. */
  def totals: Option[(Long, JsonNode)] =
    if (isEmpty) None
    else {
      val latest = store.read(classOf[StoredTotals], Latest)
      Some((latest.time, mapper.readTree(latest.json)))
    }

  /** All shuffles that are kept, the newest first. */
  def shuffles: Seq[JsonNode] = {
    val newest = store.view(classOf[StoredShuffle]).reverse().closeableIterator()
    try {
      val found = Seq.newBuilder[JsonNode]
      newest.forEachRemaining { shuffle =>
        found += mapper.readTree(shuffle.json)
        ()
      }
      found.result()
    } finally {
      newest.close()
    }
  }
}
