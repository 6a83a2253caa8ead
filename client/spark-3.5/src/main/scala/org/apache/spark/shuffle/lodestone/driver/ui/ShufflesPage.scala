// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.ui

import scala.xml.Node

import javax.servlet.http.HttpServletRequest

import org.apache.spark.ui.{SparkUITab, UIUtils, WebUIPage}

/** The page of the tab. Spark's lines have the servlet's classes in different packages. */
private[ui] final class ShufflesPage(tab: SparkUITab, content: ReportContent)
    extends WebUIPage("") {
  override def render(request: HttpServletRequest): Seq[Node] =
    UIUtils.headerSparkPage(request, ReportContent.Title, content.all(request.getParameter), tab)
}
