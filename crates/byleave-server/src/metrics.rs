//! Metrics of this process in the Prometheus format (A2).

use std::sync::Arc;

use metrics_exporter_prometheus::{BuildError, PrometheusBuilder};

/// Renders all metrics of this process.
pub type MetricsRenderer = Arc<dyn Fn() -> String + Send + Sync>;

/// Starts to collect metrics. Call it once in a process.
pub fn collect() -> Result<MetricsRenderer, BuildError> {
    let handle = PrometheusBuilder::new().install_recorder()?;
    Ok(Arc::new(move || {
        handle.run_upkeep();
        handle.render()
    }))
}
