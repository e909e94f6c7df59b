"""Whether a text in a browser can be read: its contrast with what is behind it, as WCAG counts it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

# Colours are worked out on a canvas, so that every way to write one is read. Text on a picture (a gradient, an svg) is left out.
_FIND = """
([within, least]) => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true})
  const rgba = (text) => {
    canvas.clearRect(0, 0, 1, 1)
    canvas.fillStyle = text
    canvas.fillRect(0, 0, 1, 1)
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data
    return [r, g, b, a / 255]
  }
  const over = (top, below) => [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3])).concat(1)
  const light = (c) => [0, 1, 2].map(i => c[i] / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0)
  const page = [255, 255, 255, 1]  // where no element has a background: our pages and JupyterLab's all have one
  const behind = (element) => {
    const layers = []
    for (let at = element; at; at = at.parentElement) {
      const style = getComputedStyle(at)
      if (style.backgroundImage !== "none" || style.boxShadow.includes("inset")) return null  // painted in another way
      layers.unshift(rgba(style.backgroundColor))
    }
    return layers.reduce((below, top) => over(top, below), page)
  }
  const found = []
  for (const root of document.querySelectorAll(within)) {
    const walk = document.createTreeWalker(root, NodeFilter.SHOW_TEXT)
    while (walk.nextNode()) {
      const element = walk.currentNode.parentElement, text = walk.currentNode.textContent.trim()
      if (!text || element.closest("svg, script, style, noscript, button:disabled")) continue
      if (!element.checkVisibility({opacityProperty: true, visibilityProperty: true})) continue
      const paper = behind(element)
      if (paper === null) continue
      const ink = over(rgba(getComputedStyle(element).color), paper)
      const [low, high] = [light(ink), light(paper)].sort((a, b) => a - b)
      const contrast = (high + 0.05) / (low + 0.05)
      const [of, on] = [ink, paper].map(colour => colour.slice(0, 3).map(Math.round))
      if (contrast < least) found.push(`${contrast.toFixed(1)}: ${text.slice(0, 60)} (${of} on ${on})`)
    }
  }
  return found
}
"""
_COUNT = """(within) => [...document.querySelectorAll(within)].map(each => each.innerText.length).reduce((a, b) => a + b, 0)"""


def illegible(page: Page, within: str, least: float = 4.5) -> list[str]:
    """Every text inside the elements that `within` selects whose contrast is below `least` (WCAG's AA: 4.5 to 1), a line each.

    Where the selected elements have no text at all, that is said: a check of nothing does not pass.
    """
    return page.evaluate(_FIND, [within, least]) if page.evaluate(_COUNT, within) else [f"nothing is in {within}"]
