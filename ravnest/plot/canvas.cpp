#include "ravnest/plot/canvas.h"

#include <cairo-svg.h>
#include <cairo.h>

#include <cmath>
#include <numbers>

#include "ravnest/base/error.h"

namespace ravnest::plot {

namespace {

constexpr double kPixelsPerPoint = 2.0;
constexpr const char* kFont = "DejaVu Sans";

using Surface = std::unique_ptr<cairo_surface_t, decltype(&cairo_surface_destroy)>;
using Context = std::unique_ptr<cairo_t, decltype(&cairo_destroy)>;

cairo_status_t append(void* text, const unsigned char* data, unsigned int length) {
  static_cast<std::string*>(text)->append(reinterpret_cast<const char*>(data), length);
  return CAIRO_STATUS_SUCCESS;
}

void check(cairo_status_t status) {
  if (status != CAIRO_STATUS_SUCCESS) {
    throw Error(ErrorKind::kIo,
                concat("[plot] cannot draw: ", cairo_status_to_string(status), "."));
  }
}

cairo_surface_t* make_surface(double width, double height, PictureFormat format,
                              std::string& written) {
  if (format == PictureFormat::kSvg) {
    return cairo_svg_surface_create_for_stream(&append, &written, width, height);
  }
  const auto pixels = [](double points) {
    return static_cast<int>(std::lround(points * kPixelsPerPoint));
  };
  return cairo_image_surface_create(CAIRO_FORMAT_RGB24, pixels(width), pixels(height));
}

// Glyphs where the layout puts them, whatever the screen's own wishes.
void set_font_options(cairo_t* context) {
  cairo_font_options_t* options = cairo_font_options_create();
  cairo_font_options_set_hint_style(options, CAIRO_HINT_STYLE_NONE);
  cairo_font_options_set_hint_metrics(options, CAIRO_HINT_METRICS_OFF);
  cairo_font_options_set_antialias(options, CAIRO_ANTIALIAS_GRAY);
  cairo_set_font_options(context, options);
  cairo_font_options_destroy(options);
}

}  // namespace

struct Canvas::State {
  State(double width, double height, PictureFormat picture)
      : format(picture),
        surface(make_surface(width, height, picture, written), &cairo_surface_destroy),
        context(cairo_create(surface.get()), &cairo_destroy) {}

  PictureFormat format;
  std::string written;
  Surface surface;
  Context context;
};

PictureFormat format_of(const std::filesystem::path& path) {
  if (path.extension() == ".png") {
    return PictureFormat::kPng;
  }
  if (path.extension() == ".svg") {
    return PictureFormat::kSvg;
  }
  throw_invalid("[plot] expected a file that ends with .png or .svg, got '", path.string(), "'.");
}

Canvas::Canvas(double width, double height, PictureFormat format)
    : state_(std::make_unique<State>(width, height, format)) {
  cairo_t* context = state_->context.get();
  check(cairo_status(context));
  if (format == PictureFormat::kPng) {
    cairo_scale(context, kPixelsPerPoint, kPixelsPerPoint);
  }
  cairo_set_line_join(context, CAIRO_LINE_JOIN_ROUND);
  cairo_set_line_cap(context, CAIRO_LINE_CAP_ROUND);
  set_font_options(context);
}

Canvas::~Canvas() = default;

void Canvas::set(Colour colour) {
  const auto channel = [&](unsigned shift) {
    return static_cast<double>((colour.rgb >> shift) & 255U) / 255.0;
  };
  cairo_set_source_rgba(state_->context.get(), channel(16), channel(8), channel(0), colour.alpha);
}

void Canvas::fill(const Box& box, Colour colour) {
  set(colour);
  cairo_rectangle(state_->context.get(), box.x, box.y, box.width, box.height);
  cairo_fill(state_->context.get());
}

void Canvas::line(std::span<const Point> points, Colour colour, double width) {
  set(colour);
  cairo_set_line_width(state_->context.get(), width);
  for (const Point& point : points) {
    cairo_line_to(state_->context.get(), point.x, point.y);
  }
  cairo_stroke(state_->context.get());
}

void Canvas::area(std::span<const Point> points, double base, Colour colour) {
  if (points.empty()) {
    return;
  }
  set(colour);
  cairo_line_to(state_->context.get(), points.front().x, base);
  for (const Point& point : points) {
    cairo_line_to(state_->context.get(), point.x, point.y);
  }
  cairo_line_to(state_->context.get(), points.back().x, base);
  cairo_fill(state_->context.get());
}

void Canvas::dot(Point centre, double radius, Colour colour) {
  set(colour);
  cairo_arc(state_->context.get(), centre.x, centre.y, radius, 0, 2 * std::numbers::pi);
  cairo_fill(state_->context.get());
}

double Canvas::text(Point at, const std::string& text, const Lettering& lettering) {
  cairo_t* context = state_->context.get();
  cairo_select_font_face(context, kFont, CAIRO_FONT_SLANT_NORMAL,
                         lettering.bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
  cairo_set_font_size(context, lettering.size);
  cairo_text_extents_t extents;
  cairo_text_extents(context, text.c_str(), &extents);
  const double shift = lettering.anchor == Anchor::kStart    ? 0.0
                       : lettering.anchor == Anchor::kMiddle ? extents.x_advance / 2
                                                             : extents.x_advance;
  set(lettering.colour);
  cairo_move_to(context, at.x - shift, at.y);
  cairo_show_text(context, text.c_str());
  cairo_new_path(context);
  return extents.x_advance;
}

void Canvas::begin_clip(const Box& box) {
  cairo_save(state_->context.get());
  cairo_rectangle(state_->context.get(), box.x, box.y, box.width, box.height);
  cairo_clip(state_->context.get());
}

void Canvas::end_clip() { cairo_restore(state_->context.get()); }

std::string Canvas::finish() {
  check(cairo_status(state_->context.get()));
  cairo_surface_flush(state_->surface.get());
  if (state_->format == PictureFormat::kPng) {
    check(cairo_surface_write_to_png_stream(state_->surface.get(), &append, &state_->written));
  }
  cairo_surface_finish(state_->surface.get());
  check(cairo_surface_status(state_->surface.get()));
  return std::move(state_->written);
}

}  // namespace ravnest::plot
