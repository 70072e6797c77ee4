//===- HtmlStyle.cpp - the style sheet of pages ---------------------------===//
//
// Each colour is a variable with a value for light and one for dark. The
// colours of text and of marks have a contrast of at least 4.5 to both grounds
// (WCAG 2.1, 1.4.3 asks for that of text, 1.4.11 for 3 of marks).
//
//===----------------------------------------------------------------------===//
#include "cli/Html.h"

namespace kiln::cli {

static constexpr llvm::StringLiteral kStyle = R"css(
:root { color-scheme: light dark; --ground: #ffffff; --text: #1c2128;
  --soft: #57606a; --rule: #d0d7de; --grid: #e4e8ec; --panel: #f6f8fa;
  --link: #0a58a8; --c0: #0b63b8; --c1: #c2410c; --c2: #15803d; --c3: #9333b5;
  --c4: #b45309; --c5: #0e7490; --c6: #be185d; --c7: #4d5560; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #0f1318; --text: #e6e9ee; --soft: #a3adb8; --rule: #39424d;
    --grid: #262d36; --panel: #171c23; --link: #7cb8f8; --c0: #6cb2ff;
    --c1: #ff9a62; --c2: #59cf86; --c3: #d796f2; --c4: #e3b341; --c5: #4fd1e0;
    --c6: #ff8cbb; --c7: #b4bdc8; } }
.c0 { --mark: var(--c0); } .c1 { --mark: var(--c1); }
.c2 { --mark: var(--c2); } .c3 { --mark: var(--c3); }
.c4 { --mark: var(--c4); } .c5 { --mark: var(--c5); }
.c6 { --mark: var(--c6); } .c7 { --mark: var(--c7); }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body { margin: 0 auto; padding: 12px; max-width: 1600px;
  font: 16px/1.5 system-ui, "DejaVu Sans", sans-serif; color: var(--text);
  background: var(--ground); overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 8px 0; }
h2 { font-size: 1.3rem; margin: 2.2rem 0 .5rem; padding-top: .6rem;
  border-top: 1px solid var(--rule); }
h3 { font-size: 1.05rem; margin: 1.5rem 0 .4rem; }
p, ul { margin: .5rem 0; max-width: 75ch; }
ul { padding-left: 1.3rem; }
.note { font-size: .875rem; color: var(--soft); }
a { color: var(--link); }
nav { display: flex; flex-wrap: wrap; gap: .2rem 1rem; }
nav a { padding: .15rem 0; }
details { margin: .7rem 0; }
summary { cursor: pointer; }
.grid { display: grid; gap: 16px;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 320px), 1fr)); }
.scroll { overflow-x: auto; margin: .7rem 0; border: 1px solid var(--rule);
  border-radius: 6px; max-width: max-content; }
table { border-collapse: collapse; font-size: .875rem;
  font-variant-numeric: tabular-nums; overflow-wrap: normal; }
caption { text-align: left; padding: .5rem .7rem; color: var(--soft);
  position: sticky; left: 0; }
th, td { text-align: left; padding: .3rem .7rem; vertical-align: top;
  border-top: 1px solid var(--rule); }
tbody th, td { white-space: nowrap; }
td.prose { white-space: normal; min-width: 22rem; max-width: 40rem; }
thead th { background: var(--panel); vertical-align: bottom; }
tbody th { font-weight: 600; }
th.figure, td.figure { text-align: right; }
td.code, tbody th.code { font-family: ui-monospace, "DejaVu Sans Mono",
  monospace; font-size: .8rem; font-weight: 400; }
figure { margin: 0; min-width: 0; max-width: 560px; background: var(--panel);
  border: 1px solid var(--rule); border-radius: 6px; padding: 6px 8px 8px; }
figcaption { font-size: .9rem; font-weight: 600; line-height: 1.3;
  padding: 0 2px 2px; }
svg.plot { display: block; width: 100%; height: auto; }
svg text { font-size: 12px; fill: var(--text); }
svg .title { fill: var(--soft); }
svg .axis { stroke: var(--soft); fill: none; }
svg .grid-line { stroke: var(--grid); fill: none; }
svg .points { fill: none; stroke: var(--mark); stroke-width: 3;
  stroke-linecap: round; opacity: .65; }
svg .key { stroke-width: 8; opacity: 1; }
svg .swatch { fill: var(--mark); }
svg .line { fill: none; stroke: var(--mark); stroke-width: 2;
  stroke-linejoin: round; }
svg .dashed { stroke-dasharray: 6 4; }
svg .dotted { stroke-dasharray: 2 3; }
svg .area { fill: var(--mark); opacity: .16; }
svg .box { fill: var(--mark); fill-opacity: .3; stroke: var(--mark); }
.legend { list-style: none; display: flex; flex-wrap: wrap; margin: 4px 2px 0;
  padding: 0; gap: 0 .9rem; font-size: .8rem; max-width: none; }
.legend svg { display: inline-block; width: 22px; height: 10px;
  margin-right: .35rem; vertical-align: baseline; }
.bars { list-style: none; margin: 2px; padding: 0; font-size: .8rem;
  max-width: none; }
.bars li { display: flex; flex-wrap: wrap; justify-content: space-between;
  gap: 0 .8rem; padding-top: .35rem; }
.bars .value { font-variant-numeric: tabular-nums; margin-left: auto; }
.bars .track { flex: 0 0 100%; display: flex; height: 12px; }
.bars .below { height: 8px; margin-top: 1px; }
.bars .track i { background: var(--mark); height: 100%;
  border-right: 1px solid var(--panel); min-width: 0; }
.legend .swatch { display: inline-block; width: 12px; height: 10px;
  margin-right: .35rem; background: var(--mark); }
svg .disc { fill: var(--mark); fill-opacity: .55; stroke: var(--mark); }
figure.wide { max-width: none; margin: .7rem 0; }
.timeline { margin: 2px 2px 6px; }
.lane { position: relative; height: 26px; }
.lane .box { position: absolute; top: 1px; bottom: 1px; overflow: hidden;
  font-size: .75rem; line-height: 24px; text-indent: 4px; white-space: nowrap;
  color: var(--text); text-decoration: none; text-overflow: ellipsis;
  overflow-wrap: normal; box-shadow: inset 0 0 0 1px var(--mark);
  background-color: color-mix(in srgb, var(--mark) 22%, transparent); }
.lane a.box:hover, .lane a.box:focus-visible { outline: 2px solid var(--link); }
.box.apart { background-image: linear-gradient(to right,
  transparent calc(100% - 1px), var(--mark) calc(100% - 1px)); }
.lane.ticks { border-top: 1px solid var(--soft); height: 20px; }
.ticks span { position: absolute; font-size: .7rem; color: var(--soft);
  padding-left: 3px; border-left: 1px solid var(--soft); white-space: nowrap; }
svg.wave { flex: 0 0 100%; width: 100%; display: block; margin-top: 2px;
  background: var(--ground); border: 1px solid var(--rule); }
svg .cut { stroke: var(--panel); stroke-width: 1; fill: none;
  vector-effect: non-scaling-stroke; }
.pair { display: flex; flex-wrap: wrap; align-items: flex-start;
  gap: 16px; }
.pair figure { flex: 0 1 420px; }
.pair .scroll { flex: 1 1 420px; min-width: 0; margin: 0; }
.tiles { display: grid; gap: 10px; margin: .8rem 0;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 180px), 1fr)); }
.tiles div { background: var(--panel); border: 1px solid var(--rule);
  border-radius: 6px; padding: .5rem .7rem; }
.tiles .long { grid-column: span 2; }
@media (max-width: 460px) { .tiles .long { grid-column: auto; } }
.tiles dt { font-size: .8rem; color: var(--soft); }
.tiles dd { margin: 0; font-weight: 600; overflow-wrap: anywhere; }
.tiles dd.source { font-size: .75rem; font-weight: 400; }
.tiles dd.meter { height: 6px; margin: .3rem 0; background: var(--grid); }
.meter i { display: block; height: 100%; background: var(--c0); }
.step { display: grid; grid-template-columns: 2.2rem minmax(0, 1fr);
  padding: .35rem .3rem; border-top: 1px solid var(--grid); }
.step:target { background: var(--panel); outline: 1px solid var(--link); }
.step .number { color: var(--soft); font-size: .85rem;
  font-variant-numeric: tabular-nums; }
.step p { margin: .15rem 0; }
.formula { font-size: .9rem; font-variant-numeric: tabular-nums; }
.formula a, td.prose a { text-decoration: none; }
.formula a:hover, td.prose a:hover { text-decoration: underline; }
.verdict::before { content: "\2192  "; }
.verdict { font-size: .9rem; font-weight: 600; }
.value.device, .value.fitted, .value.work, .value.literal {
  border-bottom: 2px solid var(--mark); }
.value.device { --mark: var(--c3); } .value.fitted { --mark: var(--c1); }
.value.work { --mark: var(--c2); }
.value.literal { --mark: var(--rule); }
.value sup { font-size: .65em; color: var(--mark); margin-left: 1px;
  line-height: 0; }
.marks { list-style: none; padding: 0; display: flex; flex-wrap: wrap;
  gap: .2rem 1.2rem; font-size: .875rem; max-width: none; }
pre { margin: 0; padding: .6rem .7rem; font: .8rem/1.4 ui-monospace,
  "DejaVu Sans Mono", monospace; }
@media (min-width: 700px) { body { padding: 12px 24px; } }
@media print { .scroll { overflow: visible; } nav { display: none; } }
)css";

llvm::StringRef htmlStyle() { return kStyle.ltrim('\n'); }

} // namespace kiln::cli
