// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.ui

import org.apache.spark.{SparkConf, SparkContext}
import org.apache.spark.scheduler.SparkListener
import org.apache.spark.status.{AppHistoryServerPlugin, ElementTrackingStore}
import org.apache.spark.ui.{SparkUI, SparkUITab}

/** The tab in Spark's UI. It needs no key; without Spark's UI there is none. */
private[lodestone] final class LodestoneTab private[ui] (parent: SparkUI)
    extends SparkUITab(parent, "lodestone") {
  private val stored = new StoredReport(parent.store.store)

  /** After those of Spark's own SQL. */
  override def displayOrder: Int = LodestoneTab.Order

  attachPage(new ShufflesPage(this, new ReportContent(stored)))
}

private[lodestone] object LodestoneTab {
  private[ui] val Order = 10

  /** Adds the tab to the UI of an application that runs. */
  def addTo(context: SparkContext): Unit = context.ui.foreach { ui =>
    context.listenerBus.addToSharedQueue(new ReportListener(ui.store.store))
    ui.attachTab(new LodestoneTab(ui))
  }
}

/** The tab in Spark's History Server, which finds this class by its name in a file of the jar. */
private[ui] final class LodestoneHistory extends AppHistoryServerPlugin {
  override def createListeners(conf: SparkConf, store: ElementTrackingStore): Seq[SparkListener] =
    Seq(new ReportListener(store))

  /** Applications without Lodestone have no tab. */
  override def setupUI(ui: SparkUI): Unit =
    if (!new StoredReport(ui.store.store).isEmpty) ui.attachTab(new LodestoneTab(ui))

  override def displayOrder: Int = LodestoneTab.Order
}
