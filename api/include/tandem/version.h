/* Version of the headers and of the library. The build reads these numbers. */
#ifndef TANDEM_VERSION_H
#define TANDEM_VERSION_H

#define TDM_VERSION_MAJOR 0
#define TDM_VERSION_MINOR 2
#define TDM_VERSION_PATCH 0

/* The version as one number that can be compared: 10000 * major + 100 * minor + patch. */
#define TDM_VERSION_NUMBER (10000 * TDM_VERSION_MAJOR + 100 * TDM_VERSION_MINOR + TDM_VERSION_PATCH)

#endif
