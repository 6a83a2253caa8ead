// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver.ui

import scala.xml.Node

import jakarta.servlet.http.HttpServletRequest

import org.apache.spark.ui.{SparkUITab, UIUtils, WebUIPage}

/** The page of the tab. Spark's lines have the servlet's classes in different packages. */
private[ui] final class ShufflesPage(tab: SparkUITab, content: ReportContent)
    extends WebUIPage("") {
  override def render(request: HttpServletRequest): Seq[Node] =
    ShufflesPage.framed(request, () => content.all(request.getParameter), tab)
}

private object ShufflesPage {

  /** Spark 4.2 has a parameter more than 4.1. All after the fourth have defaults. */
  private val frame =
    UIUtils.getClass.getMethods.find(_.getName == "headerSparkPage").getOrElse {
      throw new NoSuchMethodException("UIUtils.headerSparkPage")
    }

  private def framed(
      request: HttpServletRequest,
      content: () => Seq[Node],
      tab: SparkUITab): Seq[Node] = {
    val defaults = (5 to frame.getParameterCount).map { number =>
      UIUtils.getClass.getMethod(s"headerSparkPage$$default$$$number").invoke(UIUtils)
    }
    val arguments = Seq[AnyRef](request, ReportContent.Title, content, tab) ++ defaults
    frame.invoke(UIUtils, arguments: _*).asInstanceOf[Seq[Node]]
  }
}
