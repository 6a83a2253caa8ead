// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.ui

import scala.xml.{Node, NodeSeq}

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.ui.UIUtils

/** Bars of shuffles on one axis, from the first time to the last. */
private[ui] final class Timeline(firstMs: Long, lastMs: Long) {
  import Timeline._

  def bar(shuffle: JsonNode): NodeSeq = {
    val registered = ms(shuffle, "registeredMillis")
    val changed = ms(shuffle, "changedMillis")
    if (registered == 0) NodeSeq.Empty
    else {
      val decided = Some(ms(shuffle, "decidedMillis")).filter(_ >= registered)
      <svg width={Width.toString} height={Height.toString} role="img">
        <title>{words(registered, decided, changed)}</title>
        {part(registered, changed, "#a6c8e0")}
        {decided.map(part(_, changed, "#0088cc")).getOrElse(NodeSeq.Empty)}
      </svg>
    }
  }

  private def words(registered: Long, decided: Option[Long], changed: Long): String =
    s"registered ${after(registered)} after the first shuffle" +
      decided.map(at => s", decided ${after(at)}").getOrElse("") +
      s", last report ${after(changed)}"

  private def after(at: Long): String = UIUtils.formatDuration(math.max(0, at - firstMs))

  private def part(from: Long, to: Long, color: String): Node =
    <rect x={x(from).toString} y="2" height={(Height - 4).toString} fill={color}
      width={math.max(1, x(to) - x(from)).toString}/>

  /** Clocks may be set back: no bar leaves the axis. */
  private def x(at: Long): Long =
    if (lastMs <= firstMs) 0
    else math.max(0, math.min(Width - 1, (at - firstMs) * (Width - 1) / (lastMs - firstMs)))
}

private[ui] object Timeline {
  private val Width = 160
  private val Height = 14

  def of(shuffles: Seq[JsonNode]): Timeline = {
    val begins = shuffles.map(ms(_, "registeredMillis")).filter(_ > 0)
    val ends = shuffles.map(ms(_, "changedMillis"))
    new Timeline(begins.foldLeft(Long.MaxValue)(math.min), ends.foldLeft(0L)(math.max))
  }

  private def ms(shuffle: JsonNode, name: String): Long = shuffle.path(name).asLong
}
